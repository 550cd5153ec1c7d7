"""The open pane: rows in order of arrival, until it is sealed."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip._kernels import labels as ranking
from stream_leip._kernels import panes as kernel
from stream_leip.arrays import Rows, Vector
from stream_leip.chunk import Chunk, check_complete
from stream_leip.estimators.estimate import ALL_CLASSES
from stream_leip.pane import Pane

VERSION = 2
SMALLEST = 16
_LARGE = 10_000

T = TypeVar("T", bound=np.generic)


class OpenPane:
    """A pane that still takes rows: appending is constant time, on average.

    Parameters
    ----------
    m
        How many classes there are.
    top_k
        How many entries of a row are kept; None for all.
    most
        How many rows it will hold at most, where that is known: growth stops there.
    """

    __slots__ = (
        "_classes",
        "_events",
        "_m",
        "_most",
        "_rows",
        "end",
        "level",
        "n",
        "seen",
        "start",
    )

    def __init__(self, m: int, top_k: int | None = None, most: int | None = None) -> None:
        room = SMALLEST if most is None else min(SMALLEST, most)
        self._most = most
        self._m = m
        self._rows = np.empty((room, top_k or m), np.float32)
        self._classes = np.empty((room, top_k), np.uint16) if top_k else ALL_CLASSES
        self._events = np.empty(room, np.int64)
        self.n = 0
        self.seen = 0
        self.level = 0
        self.start: float | None = None
        self.end: float | None = None

    def _make_room(self, more: int) -> None:
        if self.n + more <= len(self._rows):
            return
        # By doubling at first, then by an eighth: geometric growth either way.
        held = len(self._rows)
        size = max(self.n + more, 2 * held if held < _LARGE else held + held // 8)
        if self._most is not None and self.n + more <= self._most:
            size = min(size, self._most)
        self._resize(size)

    def _resize(self, size: int) -> None:
        self._rows = _resized(self._rows, self.n, size)
        self._events = _resized(self._events, self.n, size)
        if self._classes.shape[1]:
            self._classes = _resized(self._classes, self.n, size)

    def append(self, row: Rows, event: int, time: float | None) -> None:
        """Append one row, of shape (1, m)."""
        self.seen += 1
        if time is not None:
            self._span(time, time)
        n = self.n
        if n == len(self._rows):
            self._make_room(1)
        self._events[n] = event
        if self.level and not kernel.kept(self._events[n : n + 1], self.level)[0]:
            return
        if self._classes.shape[1]:
            self._put(slice(n, n + 1), row)
        else:
            self._rows[n] = row
        self.n = n + 1

    def extend(self, rows: Rows, events: NDArray[np.int64], times: Vector | None) -> None:
        """Append rows; their event numbers ascend."""
        self.seen += len(rows)
        if times is not None:
            self._span(float(times.min()), float(times.max()))
        if self.level:
            stay = kernel.kept(events, self.level)
            rows, events = rows[stay], events[stay]
        self._make_room(len(rows))
        place = slice(self.n, self.n + len(rows))
        self._events[place] = events
        self._put(place, rows)
        self.n += len(rows)

    def fill(self, rows: Rows, events: NDArray[np.int64], times: Vector | None) -> None:
        """Take the rows of a pane that begins and ends with them, without a copy if it can.

        It is to be sealed before the rows can change.
        """
        if self._classes.shape[1]:
            self.extend(rows, events, times)
            return
        if times is not None:
            self._span(float(times.min()), float(times.max()))
        self._rows, self._events = rows, events
        self.n = self.seen = len(rows)

    def _put(self, place: slice, rows: Rows) -> None:
        if self._classes.shape[1]:
            ranking.largest_entries(rows, self._rows[place], self._classes[place])
        else:
            self._rows[place] = rows

    def _span(self, low: float, high: float) -> None:
        self.start = low if self.start is None else min(self.start, low)
        self.end = high if self.end is None else max(self.end, high)

    def thin(self, level: int) -> None:
        """Let go of the rows that do not stay at a higher thinning level."""
        stay = np.flatnonzero(kernel.kept(self._events[: self.n], level))
        self.n = len(stay)
        self._rows[: self.n] = self._rows[stay]
        self._events[: self.n] = self._events[stay]
        if self._classes.shape[1]:
            self._classes[: self.n] = self._classes[stay]
        self.level = level
        # A cap is there to save memory: what one large batch took is given back.
        room = max(SMALLEST, 2 * self.n)
        if self._most is not None and self.n <= self._most:
            room = min(room, self._most)
        if len(self._rows) > room:
            self._resize(room)

    def seal(self) -> Pane:
        """The rows so far as a pane of their own."""
        return Pane.seal(
            self._rows[: self.n],
            self._events[: self.n],
            self._classes[: self.n],
            self._m,
            self.start,
            self.end,
            self.level,
            self.seen,
        )

    @property
    def oldest(self) -> int | None:
        """The event number of its first row; None if it has none."""
        return int(self._events[0]) if self.n else None

    def since(self, event: int) -> Chunk:
        """The rows from an event number on."""
        begin = int(np.searchsorted(self._events[: self.n], event))
        part = slice(begin, self.n)
        classes = self._classes[part] if self._classes.shape[1] else ALL_CLASSES
        return Chunk(self._rows[part], classes, self._events[part])

    def to_bytes(self, *, rows: bool = True) -> bytes:
        """The open pane in bytes, rows in order of arrival; without them, how many they are."""
        n = self.n if rows else 0
        fields = {
            "m": self._m,
            "start": self.start,
            "end": self.end,
            "level": self.level,
            "seen": self.seen,
            "n": self.n,
        }
        arrays: binary.Arrays = {
            "rows": self._rows[:n],
            "classes": self._classes[:n],
            "events": self._events[:n],
        }
        return binary.encode("open", VERSION, fields, arrays)

    @classmethod
    def from_bytes(
        cls, data: bytes, most: int | None = None, chunk: Chunk | None = None
    ) -> "OpenPane":
        """The open pane that `to_bytes` gave; SnapshotError for anything else.

        Without its rows, these are taken from `chunk`.
        """
        fields, arrays = binary.decode(data, "open", VERSION)
        held = Chunk(**arrays)
        if chunk is not None:
            held = chunk.take(kernel.kept(chunk.events, fields["level"]))
        check_complete(held, fields["n"])
        pane = cls(fields["m"], arrays["classes"].shape[1] or None, most)
        pane._make_room(len(held))
        pane.n = len(held)
        pane._rows[: pane.n] = held.rows
        pane._events[: pane.n] = held.events
        if pane._classes.shape[1]:
            pane._classes[: pane.n] = held.classes
        pane.start, pane.end = fields["start"], fields["end"]
        pane.level, pane.seen = fields["level"], fields["seen"]
        return pane


def _resized(array: NDArray[T], n: int, size: int) -> NDArray[T]:
    """An array of another length that begins with the first `n` entries."""
    other = np.empty((size, *array.shape[1:]), array.dtype)
    other[:n] = array[:n]
    return other
