"""Windows by event time."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Rows, Vector
from stream_leip.chunk import Chunk
from stream_leip.errors import InputError
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.open_pane import OpenPane
from stream_leip.windows.footprint import most_bytes
from stream_leip.windows.retention import Retention
from stream_leip.windows.state import Cap, Layout, Scope, oldest_of

# A gap of more empty windows than this is one empty update.
_MOST_EMPTY = 1000
# Times are whole microseconds inside, so that panes of a tenth of a second have sharp edges.
_TICKS = 1e6
_LONG_AGO = -(2**62)


class TimeState:
    """Panes of `every` seconds, aligned to the epoch; a window ends with each of them.

    The watermark is the latest event time less the lateness. Pane k covers the times from k·every
    to (k + 1)·every, and is sealed when the watermark has passed its end; an event of a sealed
    pane is late.
    """

    __slots__ = (
        "_cap",
        "_capped",
        "_edge",
        "_emit_empty",
        "_every",
        "_lateness",
        "_latest",
        "_layout",
        "_open",
        "_retention",
        "late",
    )

    def __init__(
        self,
        layout: Layout,
        every: float,
        lateness: float,
        retention: Retention,
        *,
        emit_empty: bool,
    ) -> None:
        if every * _TICKS < 1.0:
            raise InputError(f"seconds: panes of {every} s are too short; use 1e-6 or more")
        self._layout = layout
        self._every = _ticks(every)
        self._lateness = _ticks(lateness)
        self._retention = retention
        self._cap = Cap(layout.max_rows, retention)
        self._capped = layout.max_rows is not None
        self._emit_empty = emit_empty
        self._open: dict[int, OpenPane] = {}
        self._latest = _LONG_AGO
        self._edge: int | None = None  # panes before it are sealed; None until the first event
        self.late = 0

    @property
    def most_bytes(self) -> int:
        """What it can come to take, under the cap of its layout."""
        assert self._longest is not None
        open_panes = -(-self._lateness // self._every) + 1
        return most_bytes(self._layout, self._retention, open_panes, self._longest)

    @property
    def _longest(self) -> int | None:
        """Rows of an open pane; one beyond the cap comes before rows are thinned."""
        return None if self._layout.max_rows is None else self._layout.max_rows + 1

    def add_one(self, row: Rows, time: float | None, event: int) -> list[Scope]:
        """Take one row, of shape (1, m)."""
        assert time is not None
        ends: list[Scope] = []
        tick = _ticks(time)
        if tick > self._latest:
            self._latest = tick
            ends = list(self._seal((tick - self._lateness) // self._every, 0))
        number = tick // self._every
        assert self._edge is not None
        if number < self._edge:
            self._too_late(row, np.array([time]), np.array([event]))
            return ends
        self._begin(self._edge)
        pane = self._pane(number)
        pane.append(row, event, time)
        if self._capped:
            self._cap.hold(list(self._open.values()))
        return ends

    def add(self, rows: Rows, times: Vector | None, events: NDArray[np.int64]) -> Iterator[Scope]:
        """Take rows; each scope must be used before the next is asked for."""
        assert times is not None
        ticks = np.rint(times * _TICKS).astype(np.int64)
        numbers = ticks // self._every
        latest = np.maximum.accumulate(np.maximum(ticks, self._latest))
        edges = (latest - self._lateness) // self._every
        before = edges[0] - 1 if self._edge is None else self._edge
        cuts = np.flatnonzero(np.diff(edges, prepend=before) > 0)
        failure: Exception | None = None
        for begin, end in pairwise(sorted({0, *cuts.tolist(), len(rows)})):
            if self._edge is None or edges[begin] > self._edge:
                yield from self._seal(int(edges[begin]), begin)
            part = slice(begin, end)
            self._latest = int(latest[end - 1])
            assert self._edge is not None
            late = numbers[part] < self._edge
            if late.any():
                try:
                    self._too_late(rows[part][late], times[part][late], events[part][late])
                except Exception as error:
                    # A callback that fails must not cost the events that are not late.
                    failure = failure or error
            if not late.all():
                self._take(rows[part], times[part], events[part], numbers[part])
        if failure is not None:
            raise failure

    def _take(
        self, rows: Rows, times: Vector, events: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> None:
        """Put rows between two edges into their panes, those that are late aside."""
        assert self._edge is not None
        self._begin(self._edge)
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for which in np.split(order, cuts):
            number = int(numbers[which[0]])
            if number >= self._edge:
                self._pane(number).extend(rows[which], events[which], times[which])
        self._cap.hold(list(self._open.values()))

    def advance(self, time: float) -> Iterator[Scope]:
        """Let event time move on, as an event of that time would."""
        tick = _ticks(time)
        if tick > self._latest:
            self._latest = tick
            yield from self._seal((tick - self._lateness) // self._every, 0)

    @property
    def every(self) -> float:
        """The length of a pane in seconds."""
        return self._every / _TICKS

    def trim(self) -> None:
        """Let go of rows that no window to come needs."""
        if self._edge is not None:
            self._begin(self._edge)

    def _begin(self, number: int) -> None:
        """With an event after the last window, the oldest pane leaves the scope."""
        self._retention.advance(number + 1)
        if self._capped:
            self._retention.compact()

    def _seconds(self, number: int) -> float:
        """Where a pane begins."""
        return number * self._every / _TICKS

    def _pane(self, number: int) -> OpenPane:
        pane = self._open.get(number)
        if pane is None:
            pane = self._open[number] = OpenPane(self._layout.m, self._layout.top_k, self._longest)
            pane.level = self._cap.level
        return pane

    def _too_late(self, rows: Rows, times: Vector, events: NDArray[np.int64]) -> None:
        self.late += len(rows)
        if self._layout.on_late is not None:
            self._layout.on_late(rows.copy(), times, events)

    def _seal(self, edge: int, place: int) -> Iterator[Scope]:
        """Seal all panes before `edge`, and end a window with each of them."""
        if self._edge is None:
            self._edge = edge
        if edge <= self._edge:
            return
        while self._edge < edge:
            target = self._edge + 1
            self._retention.advance(target)
            if self._retention.oldest is None and self._edge not in self._open:
                # Nothing in scope until the next pane that has events: over the gap at once.
                target = min([edge, *(number for number in self._open if number >= self._edge)])
                yield from self._gap(self._edge, target, place)
                self._edge = target
                continue
            opened = self._open.pop(self._edge, None)
            if opened is not None:
                self._retention.add(self._edge, opened.seal())
            self._edge = target
            if self._retention.oldest is not None or self._emit_empty:
                start, end = self._bounds(self._retention, target)
                yield Scope.of(self._retention, target, start, end, place)
        if self._capped:
            self._cap.settle(self._edge + 1, list(self._open.values()))

    def _bounds(self, retention: Retention, edge: int) -> tuple[float, float]:
        """Of the window that ends at an edge; one that fades begins with its oldest pane."""
        fading = retention.half_life is not None and retention.oldest is not None
        start = retention.oldest if fading else retention.reach(edge)
        assert start is not None
        return self._seconds(start), self._seconds(edge)

    def _gap(self, begin: int, end: int, place: int) -> Iterator[Scope]:
        """Windows with no events: one empty scope each, or one for all if they are many."""
        if not self._emit_empty or begin == end:
            return
        if end - begin > _MOST_EMPTY:
            yield Scope(None, NO_WEIGHTS, self._seconds(begin), self._seconds(end), place)
            return
        for number in range(begin, end):
            start = self._seconds(self._retention.reach(number + 1))
            yield Scope(None, NO_WEIGHTS, start, self._seconds(number + 1), place)

    def now(self) -> Scope:
        """What is in scope at this moment, open panes included."""
        if self._edge is None:
            return Scope(None)
        opened = {number: pane for number, pane in sorted(self._open.items()) if pane.n}
        edge = max([self._edge, *(number + 1 for number in opened)])
        retention = self._retention.copy()
        retention.advance(edge)
        for number, pane in opened.items():
            if number >= retention.reach(edge):
                retention.add(number, pane.seal())
        return Scope.of(retention, edge, *self._bounds(retention, edge))

    @property
    def oldest(self) -> int | None:
        """No row has a lower event number; None if there are none."""
        return oldest_of(self._retention, list(self._open.values()))

    def since(self, event: int) -> Chunk:
        """The rows from an event number on, with their panes."""
        parts = [OpenPane(self._layout.m, self._layout.top_k, 0).since(0)]
        for number, pane in self._open.items():
            part = pane.since(event)
            parts.append(part.of_panes(np.full(len(part), number, np.int64)))
        sealed = self._retention.since(event)
        joined = Chunk.join(parts if sealed is None else [sealed, *parts])
        return joined.take(np.argsort(joined.events)) if len(parts) > 1 else joined

    def snapshot(self, *, rows: bool = True) -> dict[str, Any]:
        """The state as plain values and bytes."""
        return {
            "edge": self._edge,
            "latest": self._latest,
            "late": self.late,
            "level": self._cap.level,
            "open": [
                (number, pane.to_bytes(rows=rows)) for number, pane in sorted(self._open.items())
            ],
            "panes": self._retention.to_bytes(rows=rows),
        }

    def restore(self, fields: dict[str, Any], chunk: Chunk | None = None) -> None:
        """Take over the state that `snapshot` gave."""
        self._edge = fields["edge"]
        self._latest = fields["latest"]
        self.late = fields["late"]
        self._cap.level = fields["level"]
        self._open = {}
        for number, data in fields["open"]:
            opened = None if chunk is None else chunk.take(chunk.panes == number)
            self._open[number] = OpenPane.from_bytes(data, self._longest, opened)
        self._retention.restore(fields["panes"], chunk)


def _ticks(seconds: float) -> int:
    return round(seconds * _TICKS)
