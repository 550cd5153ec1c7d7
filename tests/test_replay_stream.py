"""The events of a replay: the same bytes, at the rates asked for."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_leip import (
    InputError,
)
from stream_leip.replay import (
    Constant,
    Events,
    Linear,
    LogitNoise,
    Pool,
    Schedule,
    Square,
    Stream,
    Temperature,
    Traffic,
    Walk,
)
from stream_leip.replay.stream import BLOCK
from tests.replays import scored


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool(*scored(3000, 1))


def together(stream: Stream, chunk: int) -> Events:
    return Events.joined(list(stream.chunks(chunk)))


def as_bytes(events: Events) -> list[bytes]:
    return [getattr(events, name).tobytes() for name in Events.__dataclass_fields__]


POOL = Pool(*scored(300, 2))
shares = st.sampled_from([0.0, 0.01, 0.3])


@settings(max_examples=30)
@given(
    st.sampled_from([Constant(), Linear(), Square(), Walk()]),
    st.integers(1, 3 * BLOCK),
    st.builds(
        Traffic,
        rate=st.sampled_from([1.0, 1000.0]),
        jitter=st.sampled_from([0.0, 1.0]),
        keys=st.sampled_from([(), ("a", "b", "c")]),
        out_of_order=shares,
        delay=st.sampled_from([0.01, 100.0]),
        late=shares,
        duplicates=shares,
        bad=shares,
    ),
    st.integers(1, 5000),
    st.integers(0, 9),
)
def test_same_seed_same_bytes_however_chunked(
    schedule: Schedule, n: int, traffic: Traffic, chunk: int, seed: int
) -> None:
    if n < 8:
        schedule = Constant()
    stream = Stream(POOL, schedule, n, traffic=traffic, seed=seed)
    whole, parts = together(stream, 10**6), together(stream, chunk)
    assert as_bytes(whole) == as_bytes(parts)
    # Every event comes once, and its copies after it.
    first = whole.numbers[~whole.duplicate]
    np.testing.assert_array_equal(np.sort(first), np.arange(n))
    assert (np.diff(whole.arrivals) >= 0).all()
    place = np.empty(n, int)
    place[first] = np.flatnonzero(~whole.duplicate)
    copies = np.flatnonzero(whole.duplicate)
    assert (copies > place[whole.numbers[copies]]).all()
    np.testing.assert_array_equal(whole.scores[copies], whole.scores[place[whole.numbers[copies]]])
    np.testing.assert_array_equal(~np.isfinite(whole.scores).all(axis=1), whole.bad)
    assert not (whole.delayed & whole.late).any()
    in_order = ~(whole.delayed | whole.late | whole.duplicate)
    np.testing.assert_array_equal(whole.times[in_order], whole.arrivals[in_order])
    assert (whole.arrivals - whole.times)[whole.late].min(initial=np.inf) >= 59.9


def test_rates_hold(pool: Pool) -> None:
    traffic = Traffic(
        rate=500.0,
        jitter=1.0,
        keys=("x", "y"),
        out_of_order=0.1,
        late=0.02,
        duplicates=0.05,
        bad=0.03,
    )
    n = 100_000
    events = together(Stream(pool, Constant([0.5, 0.3, 0.2]), n, traffic=traffic), 1000)

    def near(found: float, share: float) -> bool:
        return bool(abs(found / n - share) < 4 * np.sqrt(share * (1 - share) / n))

    original = ~events.duplicate
    assert near(events.duplicate.sum(), 0.05)
    assert near((events.bad & original).sum(), 0.03)
    assert near((events.late & original).sum(), 0.02)
    assert near((events.delayed & original).sum(), 0.1)
    for label, share in enumerate([0.5, 0.3, 0.2]):
        assert near((events.labels[original] == label).sum(), share)
    assert near((events.keys[original] == 0).sum(), 0.5)
    assert events.times.max() - events.times.min() == pytest.approx(n / 500.0, rel=1e-3)
    # Within a class, rows are drawn evenly.
    chosen = np.unique(events.scores[original & ~events.bad], axis=0, return_counts=True)[1]
    assert len(chosen) == len(pool.scores)


def test_scores_are_those_of_the_label(pool: Pool) -> None:
    events = together(Stream(pool, Linear(), 5000), 5000)
    held = {row.tobytes(): label for row, label in zip(pool.scores, pool.labels, strict=True)}
    assert [held[row.tobytes()] for row in events.scores] == events.labels.tolist()


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_violations_touch_their_stretch_only(kind: Any) -> None:
    scores, labels = scored(500, 3)
    if kind == "probabilities":
        scores = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    pool = Pool(scores, labels)
    plain = together(Stream(pool, Constant(), 9000, kind=kind), 900)
    cooled = Temperature(0.5, begin=0.5)
    noisy = LogitNoise(1.0, begin=8000, label=1)
    found = together(Stream(pool, Constant(), 9000, violations=(cooled, noisy), kind=kind), 77)
    np.testing.assert_array_equal(found.labels, plain.labels)
    np.testing.assert_array_equal(found.scores[:4500], plain.scores[:4500])
    logits = found.scores if kind == "logits" else np.log(found.scores)
    given = plain.scores if kind == "logits" else np.log(plain.scores)
    gaps, before = (x[:, 0] - x[:, 1] for x in (logits, given))
    np.testing.assert_allclose(gaps[4500:8000], 0.5 * before[4500:8000], atol=1e-9)
    touched = np.flatnonzero(~np.isclose(gaps[8000:], 0.5 * before[8000:]))
    np.testing.assert_array_equal(touched, np.flatnonzero(plain.labels[8000:] == 1))
    assert (gaps - 0.5 * before)[8000:][touched].std() == pytest.approx(np.sqrt(2), rel=0.2)
    if kind == "probabilities":
        np.testing.assert_allclose(found.scores.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((np.zeros(3), [0, 1, 2]), "scores: float64 of shape"),
        ((np.eye(3), [0, 1]), "labels: shape"),
        ((np.eye(3), [0, 1, 3]), "label 3 of row 2 is out of range"),
        ((np.eye(3), ["a", "b", "c"]), "give places, or names"),
        ((np.eye(3), ["a", "b", "d"], ["a", "b", "c"]), "'d' is no class"),
        ((np.eye(3), [0, 1, 2], ["a", "b"]), "classes: 2 names for 3 columns"),
    ],
)
def test_bad_pools_are_refused(arguments: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Pool(*arguments)


@pytest.mark.parametrize(
    "change",
    [{"rate": 0}, {"late": -0.1}, {"bad": 1.1}, {"delay": float("inf")}, {"jitter": "x"}],
)
def test_bad_traffic_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(change))):
        Traffic(**change)
    with pytest.raises(InputError, match="together"):
        Traffic(late=0.6, out_of_order=0.6)
