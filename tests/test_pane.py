"""Panes: order, look-up, merge, thinning, bytes."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import LEIP, InputError, Share, SnapshotError
from stream_leip.pane import OpenPane, Pane, merge, merge_weighted
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
        Pane.seal(rows[a:b], events[a:b], float(a), float(b)) for a, b in itertools.pairwise(edges)
    ]
    whole = Pane.seal(rows, events, 0.0, float(len(rows)))
    order.shuffle(panes)  # type: ignore[attr-defined]
    assert same(merge(panes), whole)
    left = panes[0]
    for pane in panes[1:]:
        left = merge([left, pane])
    assert same(left, whole)


def test_merge_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        merge([])


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
            pane.room()[:] = rows[part]
            pane.took(begin, float(times[begin]))
        else:
            pane.extend(rows[part], np.arange(part.start, part.stop), times[part])
        begin = part.stop
    whole = Pane.seal(rows, np.arange(len(rows)), 5.0, float(times[-1]))
    assert same(pane.seal(), whole)
    assert same(OpenPane.from_bytes(pane.to_bytes()).seal(), whole)


def test_bytes_and_back() -> None:
    rows = np.random.default_rng(0).dirichlet(np.full(3, 0.5), 50).astype(np.float32)
    pane = Pane.seal(rows, np.arange(50) * 2 + 7, 1.5, 9.5).thin(1)
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
