"""Schedules of the true mix: distributions, change points, the streams of the tracking table."""

import tracemalloc
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import InputError
from stream_leip.replay import (
    Appearing,
    Bernoulli,
    Constant,
    Dirichlet,
    FromTable,
    Jumps,
    Linear,
    Rising,
    Schedule,
    Seasonal,
    Sinusoidal,
    Square,
    Sudden,
    Walk,
)
from tests.strategies import priors

M = 4


@st.composite
def schedules(draw: st.DrawFn, depth: int = 1) -> Schedule:
    """Any schedule of four classes, up to a chain of noisy ones."""
    mix = st.one_of(
        st.none(),
        priors(M),
        st.builds(Dirichlet, st.floats(0.05, 20.0)),
        st.dictionaries(st.integers(0, M - 1), st.floats(0.0, 0.3), min_size=1, max_size=3),
    )
    share = st.floats(0.0, 1.0)
    each: Schedule = draw(
        st.one_of(
            st.builds(Constant, mix),
            st.builds(Sudden, mix, mix, share),
            st.builds(Linear, mix, mix, st.floats(0.0, 0.4), st.floats(0.6, 1.0)),
            st.builds(Sinusoidal, mix, mix, st.floats(0.5, 9.0)),
            st.builds(Square, mix, mix, st.integers(1, 9)),
            st.builds(Bernoulli, mix, mix, st.one_of(st.none(), share)),
            st.builds(Rising, st.integers(0, M - 1), st.floats(0.0, 1.0)),
            st.builds(Appearing, st.integers(0, M - 1), st.floats(0.0, 1.0), share),
            st.builds(Jumps, st.floats(0.1, 5.0), st.one_of(st.none(), st.integers(1, 9))),
            st.builds(Walk, st.floats(0.001, 1.0), share),
            st.builds(Seasonal, st.floats(0.01, 1.0), st.floats(0.0, 3.0), st.floats(0.0, 3.0)),
            st.builds(
                FromTable,
                st.just([0.0, 1.0, 5.0]),
                st.lists(priors(M), min_size=3, max_size=3),
                st.booleans(),
            ),
        )
    )
    if draw(st.booleans()):
        each = each.noisy(draw(st.floats(0.0, 2.0)), draw(st.integers(1, 300)))
    if depth and draw(st.booleans()):
        each = each.then(draw(schedules(depth=0)), share=draw(st.floats(0.5, 2.0)))
    return each


@given(schedules(), st.integers(40, 9000), priors(M), st.integers(0, 100), st.data())
def test_a_schedule_gives_distributions_the_same_in_any_parts(
    schedule: Schedule, n: int, source: NDArray[Any], seed: int, data: st.DataObject
) -> None:
    try:
        plan = schedule.plan(n, source, np.random.default_rng(seed))
    except InputError as error:
        # A class is to fill up a mix in which the others had all of it, or none.
        assert "leaves" in str(error)  # noqa: PT017
        return
    whole = plan.priors(0, n)
    assert whole.shape == (n, M)
    assert (whole >= 0).all()
    np.testing.assert_allclose(whole.sum(axis=1), 1.0, atol=1e-9)
    assert all(0 < change < n for change in plan.changes)
    assert list(plan.changes) == sorted(set(plan.changes))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=3)))
    bounds = [0, *cuts, n]
    pieces = [plan.priors(a, b) for a, b in pairwise(bounds)]
    assert np.concatenate(pieces).tobytes() == whole.tobytes()
    again = schedule.plan(n, source, np.random.default_rng(seed))
    assert again.priors(0, n).tobytes() == whole.tobytes()
    assert again.changes == plan.changes


def tracking_prior(name: str, source: NDArray[Any], seed: int, n: int) -> NDArray[Any]:
    """The streams of the tracking table, event by event and with no code of ours."""
    rng = np.random.default_rng(seed)
    m = len(source)
    few = name.removeprefix("dirichlet ")
    if name == "source":
        return np.array([source] * n)
    if name == "walk":
        logs, out = np.log(source), []
        for _ in range(n):
            logs = logs + rng.normal(size=m) * 0.015
            out.append(0.98 * np.exp(logs) / np.exp(logs).sum() + 0.02 / m)
        return np.array(out)
    if name == "dirichlet square":
        mixes = [rng.dirichlet(np.ones(m)) for _ in range(8)]
        return np.array([mixes[8 * i // n] for i in range(n)])
    flips = [rng.random() < n**-0.5 for _ in range(n)] if few == "bernoulli" else []
    if name == "dirichlet bernoulli":
        mixes = [rng.dirichlet(np.ones(m)) for _ in range(sum(flips) + 1)]
        return np.array([mixes[sum(flips[: i + 1])] for i in range(n)])
    if few != name:
        first, second = rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(m))
    else:
        first, second = np.full(m, 0.3 / (m - 1)), np.full(m, 0.3 / (m - 1))
        first[0] = second[-1] = 0.7
    out = []
    for i in range(n):
        weight = {
            "constant": 0.0,
            "sudden": float(i > n / 2),
            "linear": i / n,
            "sinus": 0.5 - 0.5 * np.cos(8 * np.pi * i / n),
            "square": float(8 * i // n % 2),
            "bernoulli": float(sum(flips[: i + 1]) % 2),
        }[few]
        out.append((1 - weight) * first + weight * second)
    return np.array(out)


def ours(name: str, m: int, n: int) -> Schedule:
    few = name.removeprefix("dirichlet ")
    if few != name:
        ends: Any = {"before": Dirichlet(), "to": Dirichlet()}
    else:
        rest = 0.3 / (m - 1)
        ends = {"before": [0.7] + [rest] * (m - 1), "to": [rest] * (m - 1) + [0.7]}
    return {
        "source": Constant(),
        "walk": Walk(),
        "dirichlet square": Jumps(),
        "dirichlet bernoulli": Jumps(pieces=None),
        "constant": Constant(ends["before"]),
        "dirichlet constant": Constant(Dirichlet()),
        "square": Square(**ends),
        "bernoulli": Bernoulli(**ends),
    }.get(name) or {
        "sudden": Sudden(**ends, at=n // 2 + 1),
        "linear": Linear(**ends),
        "sinus": Sinusoidal(**ends),
    }[few]


TWO = ["constant", "sudden", "linear", "sinus", "square", "bernoulli"]
ALL = ["source", "walk", *(f"dirichlet {name}" for name in TWO)]


@pytest.mark.parametrize("name", [*TWO, *ALL])
@pytest.mark.parametrize("n", [2000, 5003])
def test_the_streams_of_the_tracking_table_are_among_ours(name: str, n: int) -> None:
    source = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    found = ours(name, 5, n).priors(n, source, seed=7)
    np.testing.assert_allclose(found, tracking_prior(name, source, 7, n), atol=1e-9)


@pytest.mark.parametrize(
    ("schedule", "changes"),
    [
        (Sudden(at=30), (30,)),
        (Sudden(at=0), ()),
        (Square(pieces=4), (25, 50, 75)),
        (Linear(), ()),
        (Appearing(1, at=0.9), (90,)),
        (Sudden(to=[0.9, 0.1], at=0.5).then(Sudden(to=[0.2, 0.8], at=0.2)), (25, 60)),
        # A stretch that begins elsewhere than the one before ended is a change of its own.
        (Constant([0.9, 0.1]).then(Constant([0.1, 0.9])), (50,)),
        (Constant([0.9, 0.1]).then(Linear(to=[0.1, 0.9])), ()),
        (FromTable([0, 10, 30], [[0.1, 0.9], [0.5, 0.5], [0.9, 0.1]]), (20, 60)),
    ],
)
def test_change_points(schedule: Schedule, changes: tuple[int, ...]) -> None:
    plan = schedule.plan(100, np.array([0.5, 0.5]), np.random.default_rng(0))
    assert plan.changes == changes
    whole = plan.priors(0, 100)
    jumps = np.flatnonzero(np.abs(np.diff(whole, axis=0)).sum(axis=1) > 0.05) + 1
    if not isinstance(schedule, Sudden) or schedule.at != 0:
        assert tuple(jumps.tolist()) == changes


def test_a_chain_begins_where_the_one_before_ended() -> None:
    chain = Rising(0, to=0.6).then(Constant()).then(Linear(to=[0.0, 1.0]), share=2.0)
    whole = chain.priors(400, np.array([0.2, 0.8]))
    np.testing.assert_allclose(whole[99:200, 0], 0.6)
    np.testing.assert_allclose(whole[[200, 300, 399], 0], [0.6, 0.3, 0.003])


@pytest.mark.parametrize(
    ("schedule", "says"),
    [
        (Constant([0.5, 0.6]), "mix: the shares sum to 1.1"),
        (Constant([0.5, 0.2, 0.3]), "mix: 3 shares for 2 classes"),
        (Constant([1.5, -0.5]), "mix: the share -0.5 is none"),
        (Constant({2: 0.5}), "mix: 2 is no class; use its place, 0 to 1"),
        (Constant({0: 1.5}), "mix: 1.5; use a share"),
        (Constant({}), "names no class"),
        (Sudden(at=1.5), "at: 1.5 is not in a stretch of 100 events"),
        (Sudden(at=101), "at: 101 is not in a stretch"),
        (Sudden(at=float("nan")), "at: nan"),
        (Linear(begin=0.5, end=0.5), "begin, end: 0.5, 0.5"),
        (Square(pieces=0), "pieces: 0; use a whole number"),
        (Square(pieces=101), "pieces: 101 of 100 events"),
        (Bernoulli(rate=2.0), "rate: 2.0; use a share"),
        (Walk(step=0.0), "step: 0.0; use a number above zero"),
        (FromTable([1, 1], [[1, 0], [0, 1]]), "each after the one before"),
        (FromTable([0, 1, 2], [[1, 0], [0, 1]]), "mixes: 2 for 3 times"),
        (FromTable([0, 1], [[1, 0], [0, 2]]), "mixes[1]: the shares sum to 2"),
        (Rising(5), "to: 5 is no class"),
        (FromTable(["x", "y"], [[1, 0], [0, 1]]), "times: ['x', 'y'] are not numbers"),  # type: ignore[list-item]
        (Sinusoidal(periods=float("nan")), "periods: nan"),
        (Seasonal(day=0), "day: 0; use a number above zero"),
    ],
)
def test_bad_settings_are_named(schedule: Schedule, says: str) -> None:
    with pytest.raises(InputError) as error:
        schedule.priors(100, np.array([0.5, 0.5]))
    assert says in str(error.value)


def test_a_walk_keeps_no_block_alive() -> None:
    tracemalloc.start()
    try:
        plan = Walk().plan(400_000, np.full(10, 0.1), np.random.default_rng(0))
        rows = [plan.priors(i, i + 1)[0] for i in range(0, 400_000, 4096)]
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(rows) == 98
    # All of its priors are 32 MB, and one block of them 0.3 MB.
    assert held < 500_000


def test_bad_settings_are_named_at_once_where_they_can_be() -> None:
    with pytest.raises(InputError, match="alpha: -1"):
        Dirichlet(-1)
    with pytest.raises(InputError, match="sd: nan"):
        Constant().noisy(float("nan"))
    with pytest.raises(InputError, match="every: 0"):
        Constant().noisy(0.1, every=0)
    with pytest.raises(InputError, match="then: 3 is no schedule"):
        Constant().then(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="share: 0"):
        Constant().then(Constant(), share=0)
