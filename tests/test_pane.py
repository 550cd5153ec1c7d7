"""Panes: order, look-up, merge, thinning, bytes."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import EM, LEIP, InputError, Share, SnapshotError
from stream_leip._kernels.likelihood import rest_rate
from stream_leip.open_pane import OpenPane
from stream_leip.pane import Pane, merge, merge_weighted
from tests.strategies import make_profile, row_arrays


def tied(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows with many exact ties of the top probability."""
    return np.concatenate([rows, rows[::-1, ::-1]]).astype(np.float32).copy()


def same(a: Pane, b: Pane) -> bool:
    return all(
        np.array_equal(x, y)
        for x, y in ((a.rows, b.rows), (a.labels, b.labels), (a.events, b.events))
    ) and (a.start, a.end, a.level, a.seen) == (b.start, b.end, b.level, b.seen)


@given(rows=row_arrays(4).map(tied), threshold=st.floats(0, 1))
def test_any_threshold_is_a_look_up(rows: NDArray[np.float32], threshold: float) -> None:
    pane = Pane.seal(rows)
    tops = rows.max(axis=1)
    np.testing.assert_array_equal(pane.tops, np.sort(tops)[::-1])
    for tau in (threshold, float(tops[0]), 0.0, 1.0, 1.5):
        sure = tops.astype(float) >= tau
        counts, split = pane.confident(tau)
        assert split == sure.sum()
        labels = rows.argmax(axis=1)
        np.testing.assert_array_equal(counts, np.bincount(labels[sure], minlength=4))
        unsure = np.flatnonzero(~sure)
        in_order = unsure[np.argsort(-tops[unsure], kind="stable")]
        np.testing.assert_array_equal(pane.events[split:], in_order)
        np.testing.assert_array_equal(pane.rows[split:], rows[in_order])


def test_checkpoints_serve_long_panes() -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(3, 0.5), 5000).astype(np.float32)
    pane = Pane.seal(rows)
    tops, labels = rows.max(axis=1), rows.argmax(axis=1)
    for tau in rng.choice(tops, 50):
        expected = np.bincount(labels[tops >= tau], minlength=3)
        np.testing.assert_array_equal(pane.confident(float(tau))[0], expected)


@given(
    rows=row_arrays(3, min_rows=3).map(tied),
    cuts=st.lists(st.floats(0, 1), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_merging_parts_in_any_order_gives_the_whole(
    rows: NDArray[np.float32], cuts: list[float], order: object
) -> None:
    events = np.arange(len(rows)) + 1000
    edges = sorted({0, len(rows), *(int(cut * len(rows)) for cut in cuts)})
    panes = [
        Pane.seal(rows[a:b], events[a:b], start=float(a), end=float(b))
        for a, b in itertools.pairwise(edges)
    ]
    whole = Pane.seal(rows, events, start=0.0, end=float(len(rows)))
    order.shuffle(panes)  # type: ignore[attr-defined]
    assert same(merge(panes), whole)
    left = panes[0]
    for pane in panes[1:]:
        left = merge([left, pane])
    assert same(left, whole)


def test_merge_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        merge([])


def test_more_events_than_keys_can_number_are_refused() -> None:
    row = np.array([[0.5, 0.5]], np.float32)
    panes = [Pane.seal(row, np.array([event])) for event in (0, 2**32)]
    with pytest.raises(InputError, match="use a shorter window"):
        merge(panes)
    nothing = Pane.seal(row[:0], np.empty(0, np.int64))
    far = Pane.seal(row, np.array([2**33]))
    assert merge([nothing, far, nothing]).events.tolist() == [2**33]
    with pytest.raises(InputError, match="use a shorter window"):
        Pane.seal(np.repeat(row, 2, axis=0), np.array([5, 2**32 + 5]))


@given(rows=row_arrays(3, min_rows=6), share=st.floats(0.05, 1.0))
def test_weights_of_panes_are_weights_of_rows(rows: NDArray[np.float32], share: float) -> None:
    middle = len(rows) // 2
    events = np.arange(len(rows))
    parts = [Pane.seal(rows[:middle], events[:middle]), Pane.seal(rows[middle:], events[middle:])]
    pane, weights = merge_weighted(parts, np.array([0.25, 1.0]))
    np.testing.assert_array_equal(weights, np.where(pane.events < middle, 0.25, 1.0))
    profile = make_profile(np.array([0.2, 0.3, 0.5]))
    leip = LEIP(Share(share))
    ranked = leip.estimate_ranked(pane, profile, weights)
    plain = leip.estimate(rows, profile, weights=np.where(events < middle, 0.25, 1.0))
    np.testing.assert_allclose(ranked.prior, plain.prior, atol=1e-12)


@given(rows=row_arrays(4).map(tied), share=st.floats(0.05, 1.0))
def test_leip_from_a_pane_is_leip_from_its_rows(rows: NDArray[np.float32], share: float) -> None:
    profile = make_profile(np.array([0.1, 0.2, 0.3, 0.4]))
    leip = LEIP(Share(share))
    ranked = leip.estimate_ranked(Pane.seal(rows), profile, np.empty(0))
    plain = leip.estimate(rows, profile)
    np.testing.assert_array_equal(ranked.prior, plain.prior)
    assert ranked.details["threshold"] == plain.details["threshold"]
    np.testing.assert_array_equal(ranked.details["confident"], plain.details["confident"])


def test_thinning_is_uniform_nested_and_of_event_numbers() -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(3, 0.5), 20_000).astype(np.float32)
    pane = Pane.seal(rows)
    thinned = pane.thin(3)
    assert len(thinned) == pytest.approx(20_000 / 8, rel=0.1)
    assert set(thinned.events) < set(pane.thin(2).events)
    assert same(pane.thin(2).thin(3), thinned)
    assert thinned.seen == 20_000
    assert pane.thin(0) is pane
    np.testing.assert_array_equal(np.sort(thinned.tops)[::-1], thinned.tops)
    share = rows.argmax(axis=1)[thinned.events]
    assert np.bincount(share) / len(share) == pytest.approx(
        np.bincount(rows.argmax(axis=1)) / 20_000, abs=0.03
    )
    # Panes of different levels merge to the higher one.
    other = Pane.seal(rows, np.arange(20_000) + 20_000)
    assert merge([thinned, other]).level == 3


@given(rows=row_arrays(3), pieces=st.lists(st.integers(1, 30), max_size=6))
@settings(max_examples=40)
def test_an_open_pane_seals_to_the_pane_of_its_rows(
    rows: NDArray[np.float32], pieces: list[int]
) -> None:
    pane = OpenPane(3)
    times = np.linspace(5.0, 6.0, len(rows))
    begin = 0
    for size in [*pieces, len(rows)]:
        part = slice(begin, min(begin + size, len(rows)))
        if part.start >= len(rows):
            break
        if size == 1:
            pane.append(rows[part], begin, float(times[begin]))
        else:
            pane.extend(rows[part], np.arange(part.start, part.stop), times[part])
        begin = part.stop
    whole = Pane.seal(rows, np.arange(len(rows)), start=5.0, end=float(times[-1]))
    assert same(pane.seal(), whole)
    assert same(OpenPane.from_bytes(pane.to_bytes()).seal(), whole)


def test_bytes_and_back() -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(3, 0.5), 50).astype(np.float32)
    pane = Pane.seal(rows, np.arange(50) * 2 + 7, start=1.5, end=9.5).thin(1)
    assert same(Pane.from_bytes(pane.to_bytes()), pane)


@given(place=st.integers(0), flip=st.integers(1, 255))
def test_any_flipped_byte_is_found(place: int, flip: int) -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(3, 0.5), 20).astype(np.float32)
    data = bytearray(Pane.seal(rows).to_bytes())
    data[place % len(data)] ^= flip
    with pytest.raises(SnapshotError):
        Pane.from_bytes(bytes(data))


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"", "cut short"), (b"x" * 100, "not of stream-leip"), (None, "are a pane")],
)
def test_other_bytes_are_refused(data: bytes | None, says: str) -> None:
    rows = np.array([[0.5, 0.5]], np.float32)
    if data is None:
        with pytest.raises(SnapshotError, match=says):
            OpenPane.from_bytes(Pane.seal(rows).to_bytes())
    else:
        with pytest.raises(SnapshotError, match=says):
            Pane.from_bytes(data)
    whole = Pane.seal(rows).to_bytes()
    for cut in (1, 10, len(whole) // 2):
        with pytest.raises(SnapshotError):
            Pane.from_bytes(whole[:-cut])


def dense(pane: Pane, spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """The rows that a pane of largest entries stands for."""
    full = np.zeros((len(pane), pane.m))
    for row, values, classes in zip(full, pane.rows, pane.classes, strict=True):
        others = np.ones(pane.m, bool)
        others[classes] = False
        row[classes] = values
        if others.any():
            row[others] = (
                max(1.0 - values.sum(dtype=float), 0) * spread[others] / spread[others].sum()
            )
    return full


def slow_leip(
    pane: Pane, spread: NDArray[np.float64], source: NDArray[np.float64], share: float
) -> NDArray[np.float64]:
    """LEIP on largest entries, class by class; beside them, classes of equal counts tie exactly."""

    def label(i: int, counts: list[float]) -> int:
        rate = rest_rate(pane.rows, pane.classes, spread, i)
        kept = dict(zip(pane.classes[i].tolist(), pane.rows[i].tolist(), strict=True))
        ratio = np.array(counts) / source
        own = [kept.get(c, -1.0) * ratio[c] for c in range(pane.m)]
        others = [-1.0 if c in kept else spread[c] * ratio[c] for c in range(pane.m)]
        if rate * max(others) > max(*own, 0.0):
            return int(np.argmax(others))
        return int(np.argmax(own)) if max(own) > 0 else int(pane.labels[i])

    threshold = np.quantile(pane.tops.astype(float), 1.0 - share)
    counts = [0.0] * pane.m
    for i, top in enumerate(pane.tops):
        counts[int(pane.labels[i]) if top >= threshold else label(i, counts)] += 1
    final = np.zeros(pane.m)
    for i in range(len(pane)):
        final[label(i, counts)] += 1
    return final / len(pane)


@given(
    rows=row_arrays(6, min_rows=2),
    k=st.integers(1, 6),
    share=st.floats(0.05, 1.0),
    hard=st.booleans(),
)
@settings(max_examples=60)
def test_largest_entries_stand_for_whole_rows(
    rows: NDArray[np.float32], k: int, share: float, hard: bool
) -> None:
    spread = np.array([0.1, 0.15, 0.2, 0.25, 0.2, 0.1])
    joint = np.diag([0.3, 0.2, 0.1, 0.1, 0.2, 0.1])
    profile = make_profile(spread, np.diag(spread))
    if hard:
        profile = replace(profile, validation=replace(profile.validation, hard=joint))
    opened = OpenPane(6, top_k=k)
    opened.extend(rows[:1], np.arange(1), None)
    for event in range(1, len(rows)):
        opened.append(rows[event : event + 1], event, None)
    pane = merge([opened.seal()])
    assert pane.rows.shape == (len(rows), k)
    assert same(Pane.from_bytes(pane.to_bytes()), pane)
    assert same(OpenPane.from_bytes(opened.to_bytes()).seal(), pane)
    np.testing.assert_array_equal(pane.tops, np.sort(rows.max(axis=1))[::-1])
    whole = dense(pane, spread)
    # A flat row may have more of its rest on one class than at its top; its label stays the top's.
    assume((whole.argmax(axis=1) == pane.labels).all())
    in_arrival = whole[np.argsort(pane.events)].astype(np.float32)
    np.testing.assert_allclose(in_arrival.max(axis=1), rows.max(axis=1))
    which: Any = "hard" if hard else "soft"
    em = EM(prior=which).estimate_ranked(pane, profile, np.empty(0))
    assert em.details["certified"]
    source = profile.prior(which)
    x = whole / source
    gradient = (x / (x @ em.prior)[:, None]).mean(axis=0)
    assert gradient.max() - 1 < 1e-6
    leip = LEIP(Share(share), prior=which).estimate_ranked(pane, profile, np.empty(0))
    np.testing.assert_allclose(
        leip.prior, slow_leip(pane, profile.soft_prior, source, share), atol=1e-12
    )


def test_two_panes_of_largest_entries_merge() -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(8, 0.3), 300).astype(np.float32)
    opened, first, second = (OpenPane(8, top_k=3) for _ in range(3))
    opened.extend(rows, np.arange(300), None)
    first.extend(rows[:100], np.arange(100), None)
    second.extend(rows[100:], np.arange(100, 300), None)
    both = merge([second.seal(), first.seal()])
    assert same(both, opened.seal())
    np.testing.assert_array_equal(both.classes, opened.seal().classes)
    opened.thin(1)
    thinned = both.thin(1)
    assert same(opened.seal(), thinned)
    np.testing.assert_array_equal(opened.seal().classes, thinned.classes)


def test_an_open_pane_gives_back_what_it_does_not_need() -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 50_000).astype(np.float32)
    pane = OpenPane(3)
    pane.extend(rows, np.arange(50_000), None)
    pane.thin(8)
    assert pane._rows.nbytes + pane._events.nbytes < 20 * 4 * pane.n
    whole = Pane.seal(rows).thin(8)
    np.testing.assert_array_equal(pane.seal().rows, whole.rows)


def test_two_rows_of_six_classes_are_certified() -> None:
    rows = np.array(
        [[0.6477747, 0.31477293, 0.02348435, 0.00717464],
         [0.40212587, 0.25003052, 0.15458357, 0.11628392]], np.float32
    )  # fmt: skip
    classes = np.array([[3, 4, 5, 2], [1, 5, 3, 4]], np.uint16)
    spread = np.array([0.1, 0.15, 0.2, 0.25, 0.2, 0.1])
    pane = Pane.seal(rows, np.arange(2), classes, 6)
    # EM steps alone creep towards the face that the maximum is on.
    em = EM().estimate_ranked(pane, make_profile(spread, np.diag(spread)), np.empty(0))
    assert em.details["certified"]
    passes = em.details["passes"]
    assert isinstance(passes, int)
    assert passes < 100
