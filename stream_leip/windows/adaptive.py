"""Adaptive memory: nobody has to choose a window's length."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip._kernels.mixture import PANE
from stream_leip.arrays import Rows, Vector
from stream_leip.chunk import Chunk
from stream_leip.errors import InputError
from stream_leip.tracker import Tracker
from stream_leip.windows.state import Layout, Scope, WindowState

# Rows that the assumption check looks at: enough to see much, few enough to be of the present.
_CHECKED = 2000


@dataclass(frozen=True)
class Adaptive:
    """As much of the past as still tells about the present, found anew every 50 events.

    Experts look at the last 50, 100, 200, … 25,600 events, at trends between these, at the last few
    events only, and at the source; they are mixed by how well they predict what comes next, for the
    whole mix and for each class. An update's `memory` says how far back the mixture looks.

    Parameters
    ----------
    every
        Events from one update to the next, a multiple of 50. One more comes at once whenever the
        alarm changes its state.

    Examples
    --------
    >>> from stream_leip import Adaptive
    >>> Adaptive(every=500)
    Adaptive(every=500)
    """

    every: int = 1000

    def __post_init__(self) -> None:
        every: object = self.every
        whole = isinstance(every, int | np.integer) and not isinstance(every, bool)
        if not whole or self.every < PANE or self.every % PANE:
            raise InputError(
                f"every: {self.every!r}; use a multiple of {PANE} events, such as 1000"
            )

    @property
    def needs_time(self) -> bool:
        """Whether every event must have a time."""
        return False

    def open(self, layout: Layout) -> WindowState:
        """A state with nothing in it."""
        assert layout.tracker is not None
        return AdaptiveState(int(self.every), layout.tracker)


class AdaptiveState:
    """Panes of 50 events, followed by a tracker; an update when it is due, or the alarm changes."""

    late = 0  # without event time, nothing is
    oldest = None  # the tracker has the rows

    def __init__(self, every: int, tracker: Tracker) -> None:
        self._every = every
        self._tracker = tracker
        # Earliest and latest time of each pane, in turn, at least as far back as a rung can reach.
        self._times = array("d")
        self._panes = tracker.reach // PANE + 1

    def add_one(self, row: Rows, time: float | None, event: int) -> list[Scope]:
        """Take one row, of shape (1, m)."""
        times = None if time is None else np.array([time])
        if self.lay(row, times):
            return []
        return list(self.add(row, times, np.empty(0, np.int64)))

    def lay(self, rows: Rows, times: Vector | None) -> bool:
        """Take rows that end no pane, for of these no scope can come; else leave them."""
        tracker = self._tracker
        over = tracker.events % PANE
        if over + len(rows) >= PANE:
            return False
        tracker.lay(rows)
        if not over or times is not None:
            self._note(over, len(rows), times)
        return True

    def add(self, rows: Rows, times: Vector | None, events: NDArray[np.int64]) -> Iterator[Scope]:
        """Take rows; each scope must be used before the next is asked for."""
        tracker = self._tracker
        begin = 0
        while begin < len(rows):
            end = min(begin + self._every - tracker.events % self._every, len(rows))
            over = tracker.events % PANE
            taken, changed = tracker.take(rows[begin:end])
            self._note(over, taken, None if times is None else times[begin : begin + taken])
            begin += taken
            if changed or tracker.events % self._every == 0:
                yield self._scope(begin - 1)

    def _note(self, over: int, n: int, times: Vector | None) -> None:
        """Note the bounds of the panes of n events, the first with `over` before these.

        Without times they are the wrong way round.
        """
        spans = self._times
        panes = -(-(over + n) // PANE) - (over > 0)
        spans.extend((inf, -inf) * panes)
        if times is not None:
            begins = np.maximum(np.arange(-over, n, PANE), 0)
            noted = np.frombuffer(spans)[-2 * len(begins) :].reshape(-1, 2)
            noted[:, 0] = np.minimum(noted[:, 0], np.minimum.reduceat(times, begins))
            noted[:, 1] = np.maximum(noted[:, 1], np.maximum.reduceat(times, begins))
            del noted  # an array that is looked at cannot grow
        if len(spans) > 4 * self._panes:
            del spans[: -2 * self._panes]

    def _scope(self, place: int) -> Scope:
        tracker = self._tracker
        if not tracker.events:
            return Scope(None)
        tracked = tracker.now()
        n = tracked.length
        panes = -(-tracker.events // PANE) - (tracker.events - n) // PANE
        reached = self._times[-2 * panes :]
        start, end = min(reached[::2]), max(reached[1::2])
        timed = start <= end
        return Scope(
            tracker.recent(n),
            start=start if timed else None,
            end=end if timed else None,
            place=place,
            tracked=tracked,
            recent=tracker.recent(_CHECKED),
        )

    def advance(self, time: float) -> Iterator[Scope]:
        """Event time ends no window here."""
        return iter(())

    def trim(self) -> None:
        """Memory adapts: there are no rows that it surely does not need."""

    def now(self) -> Scope:
        """What is in scope at this moment, the open pane included."""
        return self._scope(0)

    def since(self, event: int) -> Chunk | None:
        """The tracker has the rows."""
        return None

    def snapshot(self, *, rows: bool = True) -> dict[str, Any]:
        """The state as plain values and bytes; the tracker has its own."""
        return {"times": self._times[-2 * self._panes :].tolist()}

    def restore(self, fields: dict[str, Any], chunk: Chunk | None = None) -> None:
        """Take over the state that `snapshot` gave."""
        self._times.extend(fields["times"])
