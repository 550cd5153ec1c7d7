"""The pane: a slice of a stream, ordered by confidence, with label counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip._kernels import labels as ranking
from stream_leip._kernels import panes as kernel
from stream_leip.arrays import Rows, Vector
from stream_leip.errors import InputError

VERSION = 1
_HIGH = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_SMALLEST = 16


@dataclass(frozen=True, eq=False)
class Pane:
    """A sealed slice of a stream: rows from most to least confident, ties by arrival.

    For any threshold the confident-set counts are one look-up (`confident`) and the low-confidence
    buffer is the tail of the rows, in order.

    Parameters
    ----------
    rows
        In order.
    labels
        The class of each row's top probability.
    keys
        Rank keys: distance of the top probability from one above, event number less `first` below.
    first
        The event number that keys count from.
    start, end
        Earliest and latest event time; None where events have none.
    level
        Thinning: of the events that came, one in 2**level is here.
    seen
        How many events came.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.pane import Pane
    >>> rows = np.array([[0.6, 0.4], [0.1, 0.9], [0.8, 0.2]], np.float32)
    >>> pane = Pane.seal(rows)
    >>> pane.rows[:, 0]
    array([0.1, 0.8, 0.6], dtype=float32)
    >>> counts, split = pane.confident(0.75)
    >>> counts, pane.rows[split:]
    (array([1, 1]), array([[0.6, 0.4]], dtype=float32))
    """

    rows: Rows
    labels: NDArray[np.uint16]
    keys: NDArray[np.uint64]
    first: int
    start: float | None = None
    end: float | None = None
    level: int = 0
    seen: int = 0

    @classmethod
    def seal(
        cls,
        rows: Rows,
        events: NDArray[np.int64] | None = None,
        start: float | None = None,
        end: float | None = None,
        level: int = 0,
        seen: int | None = None,
    ) -> "Pane":
        """Order rows that came in the order given; their event numbers ascend."""
        n, _ = rows.shape
        numbers = np.arange(n, dtype=np.int64) if events is None else events
        first = int(numbers[0]) if n else 0
        keys = np.empty(n, np.uint64)
        labels = np.empty(n, np.uint16)
        ranking.rank(rows, rows.view(np.int32), keys, labels)
        keys.sort()
        order = (keys & _LOW).astype(np.int64)
        keys &= ~_LOW
        keys |= (numbers[order] - first).astype(np.uint64)
        return cls(
            rows[order], labels[order], keys, first, start, end, level, n if seen is None else seen
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def events(self) -> NDArray[np.int64]:
        """The event number of each row."""
        return (self.keys & _LOW).astype(np.int64) + self.first

    @property
    def tops(self) -> NDArray[np.float32]:
        """The top probability of each row, descending."""
        one = np.uint32(0x3F800000)
        return (one - (self.keys >> _HIGH).astype(np.uint32)).view(np.float32)

    @cached_property
    def _step(self) -> int:
        return max(256, 4 * int(self.rows.shape[1]))

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = kernel.checkpoints(self.labels, self.rows.shape[1], self._step)
        return found

    def split(self, threshold: float) -> int:
        """How many rows have a top probability of at least `threshold`."""
        if threshold > 1.0:
            return 0
        least = np.float32(threshold)
        if float(least) < threshold:
            least = np.nextafter(least, np.float32(2.0))
        distance = 0x3F800000 - int(np.maximum(least, np.float32(0.0)).view(np.int32))
        return int(np.searchsorted(self.keys, np.uint64(distance + 1) << _HIGH))

    def confident(self, threshold: float) -> tuple[NDArray[np.int64], int]:
        """Label counts of the rows at or above `threshold`, and where the others begin."""
        split = self.split(threshold)
        near, rest = divmod(split, self._step)
        m = self.rows.shape[1]
        between = self.labels[split - rest : split]
        return self._counts[near] + np.bincount(between, minlength=m), split

    def thin(self, level: int) -> "Pane":
        """The rows that stay at a higher thinning level, in the same order."""
        if level <= self.level:
            return self
        stay = kernel.kept(self.events, level)
        return Pane(
            self.rows[stay],
            self.labels[stay],
            self.keys[stay],
            self.first,
            self.start,
            self.end,
            level,
            self.seen,
        )

    @property
    def nbytes(self) -> int:
        """What the arrays take."""
        return self.rows.nbytes + self.labels.nbytes + self.keys.nbytes

    def to_bytes(self) -> bytes:
        """The pane in bytes: header, raw arrays, checksum."""
        fields = {
            "first": self.first,
            "start": self.start,
            "end": self.end,
            "level": self.level,
            "seen": self.seen,
        }
        arrays: binary.Arrays = {"rows": self.rows, "labels": self.labels, "keys": self.keys}
        return binary.encode("pane", VERSION, fields, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Pane":
        """The pane that `to_bytes` gave; SnapshotError for anything else."""
        fields, arrays = binary.decode(data, "pane", VERSION)
        return cls(arrays["rows"], arrays["labels"], arrays["keys"], **fields)


def merge(panes: Sequence[Pane]) -> Pane:
    """One pane of all rows: a linear merge, thinned to the highest level among them."""
    return merge_weighted(panes, None)[0]


def merge_weighted(panes: Sequence[Pane], weights: Vector | None) -> tuple[Pane, Vector]:
    """Merge panes, and spread a weight for each pane over its rows (empty for no weights)."""
    if not panes:
        raise InputError("panes: there are none; merge takes at least one")
    level = max(pane.level for pane in panes)
    panes = [pane.thin(level) for pane in panes]
    if len(panes) == 1:
        spread = np.full(len(panes[0]), weights[0]) if weights is not None else np.empty(0)
        return panes[0], spread
    first = min(pane.first for pane in panes)
    keys = np.concatenate([pane.keys + np.uint64(pane.first - first) for pane in panes])
    starts = np.cumsum([0] + [len(pane) for pane in panes[:-1]])
    order = kernel.merge_runs(keys, starts)
    times = [time for pane in panes for time in (pane.start, pane.end) if time is not None]
    merged = Pane(
        np.concatenate([pane.rows for pane in panes])[order],
        np.concatenate([pane.labels for pane in panes])[order],
        keys[order],
        first,
        min(times) if times else None,
        max(times) if times else None,
        level,
        sum(pane.seen for pane in panes),
    )
    if weights is None:
        return merged, np.empty(0)
    return merged, np.repeat(weights, [len(pane) for pane in panes])[order]


class OpenPane:
    """A pane that still takes rows: appending is constant time, on average.

    Parameters
    ----------
    m
        How many classes rows have.
    most
        How many rows will come at most, where that is known.
    """

    __slots__ = ("_events", "_rows", "end", "level", "n", "seen", "start")

    def __init__(self, m: int, most: int | None = None) -> None:
        room = _SMALLEST if most is None else min(_SMALLEST, most)
        self._rows = np.empty((room, m), np.float32)
        self._events = np.empty(room, np.int64)
        self.n = 0
        self.seen = 0
        self.level = 0
        self.start: float | None = None
        self.end: float | None = None

    def room(self, more: int = 1) -> Rows:
        """Where the next rows go: an array of at least `more` lines, to be filled, then `took`."""
        if self.n + more > len(self._rows):
            size = max(self.n + more, 2 * len(self._rows))
            rows = np.empty((size, self._rows.shape[1]), np.float32)
            events = np.empty(size, np.int64)
            rows[: self.n] = self._rows[: self.n]
            events[: self.n] = self._events[: self.n]
            self._rows, self._events = rows, events
        return self._rows[self.n : self.n + more]

    def took(self, event: int, time: float | None) -> None:
        """One row was written into the room: it is event number `event`."""
        self.seen += 1
        if time is not None:
            self._span(time, time)
        self._events[self.n] = event
        if not self.level or kernel.kept(self._events[self.n : self.n + 1], self.level)[0]:
            self.n += 1

    def extend(self, rows: Rows, events: NDArray[np.int64], times: Vector | None) -> None:
        """Append rows; their event numbers ascend."""
        self.seen += len(rows)
        if times is not None:
            self._span(float(times.min()), float(times.max()))
        if self.level:
            stay = kernel.kept(events, self.level)
            rows, events = rows[stay], events[stay]
        self.room(len(rows))[:] = rows
        self._events[self.n : self.n + len(rows)] = events
        self.n += len(rows)

    def _span(self, low: float, high: float) -> None:
        self.start = low if self.start is None else min(self.start, low)
        self.end = high if self.end is None else max(self.end, high)

    def thin(self, level: int) -> None:
        """Let go of the rows that do not stay at a higher thinning level."""
        stay = np.flatnonzero(kernel.kept(self._events[: self.n], level))
        self._rows[: len(stay)] = self._rows[stay]
        self._events[: len(stay)] = self._events[stay]
        self.n = len(stay)
        self.level = level

    def seal(self) -> Pane:
        """The rows so far as a pane of their own."""
        return Pane.seal(
            self._rows[: self.n],
            self._events[: self.n],
            self.start,
            self.end,
            self.level,
            self.seen,
        )

    def to_bytes(self) -> bytes:
        """The open pane in bytes, rows in order of arrival."""
        fields = {
            "start": self.start,
            "end": self.end,
            "level": self.level,
            "seen": self.seen,
        }
        arrays: binary.Arrays = {"rows": self._rows[: self.n], "events": self._events[: self.n]}
        return binary.encode("open", VERSION, fields, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "OpenPane":
        """The open pane that `to_bytes` gave; SnapshotError for anything else."""
        fields, arrays = binary.decode(data, "open", VERSION)
        pane = cls(arrays["rows"].shape[1])
        pane.room(len(arrays["rows"]))[:] = arrays["rows"]
        pane._events[: len(arrays["rows"])] = arrays["events"]
        pane.n = len(arrays["rows"])
        pane.start, pane.end = fields["start"], fields["end"]
        pane.level, pane.seen = fields["level"], fields["seen"]
        return pane
