"""What a window keeps between events."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Rows, Vector
from stream_leip.chunk import Chunk
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.open_pane import OpenPane
from stream_leip.pane import Pane
from stream_leip.tracked import Recent, Tracked
from stream_leip.tracker import Tracker
from stream_leip.windows.retention import Retention

# Called with rows that came too late, their times and their event numbers.
OnLate = Callable[[Rows, Vector, NDArray[np.int64]], None]


@dataclass(frozen=True, slots=True)
class Layout:
    """What a window needs to know of its stream.

    Parameters
    ----------
    m
        How many classes there are.
    top_k
        How many entries of a row are kept; None for all.
    max_rows
        Most rows to hold; None for no cap.
    on_late
        Called with what came too late.
    tracker
        For windows whose memory adapts.
    """

    m: int
    top_k: int | None = None
    max_rows: int | None = None
    on_late: OnLate | None = None
    tracker: Tracker | None = None


@dataclass(frozen=True, eq=False)
class Scope:
    """Rows to estimate from.

    Parameters
    ----------
    pane
        All of them, in order of arrival where memory adapts; None where there is none.
    weights
        One for each row; empty where all weigh the same.
    start, end
        Bounds in event time, where windows have them.
    place
        Which event of the batch ended the window.
    tracked
        What the tracker says at this moment, where memory adapts; its estimate is the prior.
    recent
        The rows that the assumption check looks at, where they are others than those of the pane.
    """

    pane: Pane | Recent | None
    weights: Vector = field(default_factory=lambda: NO_WEIGHTS)
    start: float | None = None
    end: float | None = None
    place: int = 0
    tracked: Tracked | None = None
    recent: Recent | None = None

    @classmethod
    def of(
        cls,
        retention: Retention,
        edge: int,
        start: float | None = None,
        end: float | None = None,
        place: int = 0,
    ) -> "Scope":
        """What is in scope when all panes before `edge` are sealed."""
        pane, weights = retention.merged(edge)
        found = pane if pane is not None and len(pane) else None
        return cls(found, NO_WEIGHTS if weights is None else weights, start, end, place)


class WindowState(Protocol):
    """Takes rows, and gives a scope whenever a window ends."""

    late: int

    def add_one(self, row: Rows, time: float | None, event: int) -> list[Scope]:
        """Take one row, of shape (1, m)."""

    def add(self, rows: Rows, times: Vector | None, events: NDArray[np.int64]) -> Iterator[Scope]:
        """Take rows; each scope must be used before the next is asked for."""

    def advance(self, time: float) -> Iterator[Scope]:
        """Let event time move on."""

    def now(self) -> Scope:
        """What is in scope at this moment, open panes included."""

    def trim(self) -> None:
        """Let go of rows that no window to come needs."""

    @property
    def oldest(self) -> int | None:
        """No row has a lower event number; None if there are none."""

    def since(self, event: int) -> Chunk | None:
        """The rows from an event number on; None if it never holds any."""

    def snapshot(self, *, rows: bool = True) -> dict[str, Any]:
        """The state as plain values and bytes; without rows, `since` gives these."""

    def restore(self, fields: dict[str, Any], chunk: Chunk | None = None) -> None:
        """Take over the state that `snapshot` gave; without rows, with the chunk that has them."""


def oldest_of(retention: Retention, panes: list[OpenPane]) -> int | None:
    """No row of these has a lower event number; None if there are none."""
    found = [retention.oldest_event, *(pane.oldest for pane in panes)]
    return min((number for number in found if number is not None), default=None)


class Cap:
    """Thins what a window holds when it holds more rows than it may.

    `level` is that of new panes. It changes only with the events that came, however they were
    split into batches: up when there are too many rows, for all panes held; down by one, for new
    panes, when a window ends and there is room. A merge thins to the highest level among its panes.
    """

    __slots__ = ("_most", "_retention", "level")

    def __init__(self, most: int | None, retention: Retention) -> None:
        self._most = most
        self._retention = retention
        self.level = 0

    def settle(self, edge: int, panes: list[OpenPane]) -> None:
        """Find the level for new panes, with what the window at `edge` covers held."""
        level, rows = self._retention.level_and_rows(edge)
        self.level = max([level, *(pane.level for pane in panes)])
        rows += sum(pane.n for pane in panes)
        if self.level and self._most is not None and 4 * rows <= self._most:
            self.level -= 1

    def hold_one(self, pane: OpenPane) -> None:
        """The same as `hold`, where there is only one open pane."""
        if self._most is not None and self._retention.rows + pane.n > self._most:
            self.hold([pane])

    def hold(self, panes: list[OpenPane]) -> None:
        """Thin open and sealed panes alike until they are within the cap."""
        if self._most is None:
            return
        while self._retention.rows + sum(pane.n for pane in panes) > self._most:
            self.level += 1
            self._retention.thin(self.level)
            for pane in panes:
                pane.thin(self.level)
