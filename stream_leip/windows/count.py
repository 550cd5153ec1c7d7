"""Windows by the number of events."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Rows, Vector
from stream_leip.chunk import Chunk
from stream_leip.open_pane import OpenPane
from stream_leip.windows.footprint import most_bytes
from stream_leip.windows.retention import Retention
from stream_leip.windows.state import Cap, Layout, Scope, oldest_of


class CountState:
    """Panes of `every` events each; a window ends with each of them."""

    __slots__ = ("_cap", "_capped", "_every", "_layout", "_number", "_open", "_retention")

    late = 0  # without event time, nothing is

    def __init__(self, layout: Layout, every: int, retention: Retention) -> None:
        self._layout = layout
        self._every = every
        self._retention = retention
        self._cap = Cap(layout.max_rows, retention)
        self._capped = layout.max_rows is not None
        self._number = 0
        self._open = self._new_pane()

    @property
    def most_bytes(self) -> int:
        """What it can come to take, under the cap of its layout."""
        return most_bytes(self._layout, self._retention, 1, self._every)

    def add_one(self, row: Rows, time: float | None, event: int) -> list[Scope]:
        """Take one row, of shape (1, m)."""
        pane = self._open
        if not pane.seen:
            self._begin()
        pane.append(row, event, time)
        if self._capped:
            self._cap.hold_one(pane)
        return [self._end(0)] if pane.seen == self._every else []

    def add(self, rows: Rows, times: Vector | None, events: NDArray[np.int64]) -> Iterator[Scope]:
        """Take rows; each scope must be used before the next is asked for."""
        begin = 0
        while begin < len(rows):
            if not self._open.seen:
                self._begin()
            end = min(begin + self._every - self._open.seen, len(rows))
            part = slice(begin, end)
            whole = end - begin == self._every and not self._capped
            take = self._open.fill if whole else self._open.extend
            take(rows[part], events[part], None if times is None else times[part])
            self._cap.hold_one(self._open)
            if self._open.seen == self._every:
                yield self._end(end - 1)
            begin = end

    def _end(self, place: int) -> Scope:
        self._retention.add(self._number, self._open.seal())
        self._number += 1
        self._open = self._new_pane()
        return Scope.of(self._retention, self._number, place=place)

    def _new_pane(self) -> OpenPane:
        return OpenPane(self._layout.m, self._layout.top_k, self._longest)

    @property
    def _longest(self) -> int:
        """Rows of the open pane; one beyond the cap comes before rows are thinned."""
        cap = self._layout.max_rows
        return self._every if cap is None else min(self._every, cap + 1)

    def _begin(self) -> None:
        """With its first event a pane takes the place of the oldest, under the cap too."""
        self._retention.advance(self._number + 1)
        if self._capped:
            self._retention.compact()
            self._cap.settle(self._number + 1, [])
            self._open.level = self._cap.level

    def advance(self, time: float) -> Iterator[Scope]:
        """Event time ends no window here."""
        return iter(())

    def trim(self) -> None:
        """Let go of rows that no window to come needs."""
        if not self._open.seen:
            self._begin()

    def now(self) -> Scope:
        """What is in scope at this moment, the open pane included."""
        if not self._open.n:
            return Scope.of(self._retention, self._number)
        opened = self._retention.copy()
        opened.add(self._number, self._open.seal())
        return Scope.of(opened, self._number + 1)

    @property
    def oldest(self) -> int | None:
        """No row has a lower event number; None if there are none."""
        return oldest_of(self._retention, [self._open])

    def since(self, event: int) -> Chunk:
        """The rows from an event number on."""
        sealed = self._retention.since(event)
        opened = self._open.since(event)
        if sealed is None:
            return opened
        return Chunk.join([sealed.of_panes(opened.panes), opened])  # event numbers tell the pane

    def snapshot(self, *, rows: bool = True) -> dict[str, Any]:
        """The state as plain values and bytes."""
        return {
            "number": self._number,
            "level": self._cap.level,
            "open": self._open.to_bytes(rows=rows),
            "panes": self._retention.to_bytes(rows=rows),
        }

    def restore(self, fields: dict[str, Any], chunk: Chunk | None = None) -> None:
        """Take over the state that `snapshot` gave."""
        self._number = fields["number"]
        self._cap.level = fields["level"]
        opened = None
        if chunk is not None:
            chunk = chunk.of_panes(chunk.events // self._every)
            opened = chunk.take(chunk.panes == self._number)
        self._open = OpenPane.from_bytes(fields["open"], self._longest, opened)
        self._retention.restore(fields["panes"], chunk)
