"""What a window keeps of sealed panes, against a plain list of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_leip import InputError, SnapshotError
from stream_leip.pane import Pane, merge_weighted
from stream_leip.windows.retention import Retention

POOL = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 64).astype(np.float32)


class ListOfPanes:
    """The same verbs, as slowly as can be."""

    def __init__(self, span: int | None, half_life: float | None) -> None:
        self.back = int(20 * half_life) + 1 if half_life is not None else span or 0
        self.half_life = half_life
        self.panes: dict[int, Pane] = {}

    def advance(self, edge: int) -> None:
        self.panes = {k: pane for k, pane in self.panes.items() if k >= edge - self.back}

    def add(self, number: int, pane: Pane) -> None:
        self.panes[number] = pane

    def thin(self, level: int) -> None:
        self.panes = {k: pane.thin(level) for k, pane in self.panes.items()}

    def merged(self, edge: int) -> tuple[Pane, Any]:
        weights = None
        if self.half_life is not None:
            ages = edge - 1 - np.array(list(self.panes))
            weights = np.exp2(-ages / self.half_life)
        return merge_weighted(list(self.panes.values()), weights)


def check(kept: Retention, slow: ListOfPanes, edge: int) -> None:
    pane, weights = kept.merged(edge)
    if not slow.panes:
        assert pane is None
        return
    assert pane is not None
    expected, spread = slow.merged(edge)
    for name in ("rows", "classes", "labels", "events", "tops"):
        np.testing.assert_array_equal(getattr(pane, name), getattr(expected, name))
    for name in ("m", "start", "end", "level", "seen", "last"):
        assert getattr(pane, name) == getattr(expected, name)
    np.testing.assert_array_equal(np.empty(0) if weights is None else weights, spread)
    assert kept.rows == sum(map(len, slow.panes.values()))


# Panes of so many rows, after a gap of so many; or a thinning; or a look at the bytes.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.sampled_from([0, 0, 0, 1, 3, 300])),
        st.tuples(st.just("thin"), st.integers(1, 2), st.just(0)),
        st.tuples(st.just("bytes"), st.just(0), st.just(0)),
        st.tuples(st.just("advance"), st.integers(1, 4), st.just(0)),
    ),
    max_size=30,
)


@pytest.mark.parametrize(
    ("span", "half_life"), [(1, None), (3, None), (256, None), (700, None), (None, 0.5), (None, 13)]
)
@given(steps=STEPS, timed=st.booleans(), look=st.integers(1, 4))
@settings(max_examples=40)
def test_a_run_of_panes_is_the_merge_of_them(
    span: int | None, half_life: float | None, steps: list[Any], timed: bool, look: int
) -> None:
    kept, slow = Retention(span, half_life), ListOfPanes(span, half_life)
    edge, event = 5, 0
    for place, (verb, size, gap) in enumerate(steps):
        if verb == "add":
            edge += gap + 1
            events = np.arange(event, event + size)
            times = (float(event), float(event + size)) if timed else (None, None)
            pane = Pane.seal(POOL[events % 64], events, start=times[0], end=times[1])
            event += size + gap
            for each in (kept, slow):
                each.advance(edge)
                each.add(edge - 1, pane)
        elif verb == "thin":
            for each in (kept, slow):
                each.thin(size)
        elif verb == "advance":
            edge += size
            for each in (kept, slow):
                each.advance(edge)
        else:
            data = kept.to_bytes()
            kept = Retention(span, half_life)
            kept.restore(data)
            assert kept.to_bytes() == data
        if place % look == 0:
            check(kept, slow, edge)
    check(kept.copy(), slow, edge)
    check(kept, slow, edge)


def test_too_many_events_in_scope_are_refused_and_nothing_changes() -> None:
    kept = Retention(3, None)
    kept.add(0, Pane.seal(POOL[:2], np.array([0, 1])))
    before = kept.to_bytes()
    with pytest.raises(InputError, match="use a shorter window"):
        kept.add(1, Pane.seal(POOL[:1], np.array([2**32])))
    assert kept.to_bytes() == before


def test_a_flipped_byte_is_found() -> None:
    kept = Retention(3, None)
    kept.add(0, Pane.seal(POOL[:2]))
    data = bytearray(kept.to_bytes() or b"")
    data[-30] ^= 1
    with pytest.raises(SnapshotError, match="corrupt"):
        Retention(3, None).restore(bytes(data))
