"""The pane: a slice of a stream, ordered by confidence, with label counts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip._kernels import labels as ranking
from stream_leip._kernels import panes as kernel
from stream_leip._kernels.labels import HIGH, INDEX, ONE
from stream_leip.arrays import Rows, Vector
from stream_leip.errors import InputError
from stream_leip.estimators.estimate import ALL_CLASSES

VERSION = 1


@dataclass(frozen=True, eq=False)
class Pane:
    """A sealed slice of a stream: rows from most to least confident, ties by arrival.

    For any threshold the confident-set counts are one look-up (`confident`) and the low-confidence
    buffer is the tail of the rows, in order.

    Parameters
    ----------
    rows
        In order: an entry for each class, or the largest entries in descending order.
    classes
        Which classes a row's entries are of; empty where rows have all of the `m` classes.
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
    classes: NDArray[np.uint16]
    labels: NDArray[np.uint16]
    keys: NDArray[np.uint64]
    m: int
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
        classes: NDArray[np.uint16] = ALL_CLASSES,
        m: int | None = None,
        start: float | None = None,
        end: float | None = None,
        level: int = 0,
        seen: int | None = None,
    ) -> "Pane":
        """Order rows that came in the order given; their event numbers ascend."""
        n, width = rows.shape
        numbers = np.arange(n, dtype=np.int64) if events is None else events
        first = int(numbers[0]) if n else 0
        keys = np.empty(n, np.uint64)
        labels = np.empty(n, np.uint16)
        if classes.shape[1]:
            ranking.rank_sparse(rows, classes, keys, labels)
        else:
            ranking.rank_checked(rows.view(np.int32), keys, labels)
        if n and int(numbers[-1]) - first > INDEX:
            raise _too_long()
        keys.sort()
        in_order = np.empty((n, width), np.float32)
        classes_in_order = np.empty_like(classes) if classes.shape[1] else ALL_CLASSES
        ranked = np.empty(n, np.uint16)
        kernel.put_in_order(
            rows, classes, labels, numbers, first, keys, in_order, classes_in_order, ranked
        )
        return cls(
            in_order,
            classes_in_order,
            ranked,
            keys,
            width if m is None else m,
            first,
            start,
            end,
            level,
            n if seen is None else seen,
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def events(self) -> NDArray[np.int64]:
        """The event number of each row."""
        return (self.keys & INDEX).astype(np.int64) + self.first

    @cached_property
    def last(self) -> int:
        """The event number of the row that came last; zero if there is none."""
        return int((self.keys & INDEX).max()) + self.first if len(self.keys) else 0

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last event number."""
        return int((self.keys & INDEX).min()) + self.first, self.last

    @property
    def tops(self) -> NDArray[np.float32]:
        """The top probability of each row, descending."""
        return (np.uint32(ONE) - (self.keys >> HIGH).astype(np.uint32)).view(np.float32)

    @property
    def _step(self) -> int:
        return _counted_rows(self.m)

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = kernel.checkpoints(self.labels, self.m, self._step)
        return found

    def split(self, threshold: float) -> int:
        """How many rows have a top probability of at least `threshold`."""
        if threshold > 1.0:
            return 0
        least = np.float32(threshold)
        if float(least) < threshold:
            least = np.nextafter(least, np.float32(2.0))
        distance = ONE - int(np.maximum(least, np.float32(0.0)).view(np.int32))
        return int(np.searchsorted(self.keys, np.uint64(distance + 1) << HIGH))

    def confident(self, threshold: float) -> tuple[NDArray[np.int64], int]:
        """Label counts of the rows at or above `threshold`, and where the others begin."""
        split = self.split(threshold)
        near, rest = divmod(split, self._step)
        between = self.labels[split - rest : split]
        return self._counts[near] + np.bincount(between, minlength=self.m), split

    def thin(self, level: int) -> "Pane":
        """The rows that stay at a higher thinning level, in the same order."""
        if level <= self.level:
            return self
        return replace(self.take(kernel.kept(self.events, level), self.first), level=level)

    def take(self, stay: NDArray[np.bool_], first: int) -> "Pane":
        """Some of the rows, in the same order, with keys that count from `first`."""
        return replace(
            self,
            rows=self.rows[stay],
            classes=self.classes[stay] if self.classes.shape[1] else ALL_CLASSES,
            labels=self.labels[stay],
            keys=_moved(self.keys[stay], self.first - first),
            first=first,
        )

    def to_bytes(self) -> bytes:
        """The pane in bytes: header, raw arrays, checksum."""
        fields = {
            "m": self.m,
            "first": self.first,
            "start": self.start,
            "end": self.end,
            "level": self.level,
            "seen": self.seen,
        }
        arrays: binary.Arrays = {
            "rows": self.rows,
            "classes": self.classes,
            "labels": self.labels,
            "keys": self.keys,
        }
        return binary.encode("pane", VERSION, fields, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Pane":
        """The pane that `to_bytes` gave; SnapshotError for anything else."""
        fields, arrays = binary.decode(data, "pane", VERSION)
        return cls(arrays["rows"], arrays["classes"], arrays["labels"], arrays["keys"], **fields)


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
    filled = [pane for pane in panes if len(pane)]
    first = min((pane.first for pane in filled), default=0)
    if max((int(pane.events.max()) for pane in filled), default=0) - first > INDEX:
        raise _too_long()
    keys = np.concatenate(
        [pane.keys + np.uint64(pane.first - first if len(pane) else 0) for pane in panes]
    )
    starts = np.cumsum([0] + [len(pane) for pane in panes[:-1]])
    order = kernel.merge_runs(keys, starts)
    times = [time for pane in panes for time in (pane.start, pane.end) if time is not None]
    merged = Pane(
        np.concatenate([pane.rows for pane in panes])[order],
        np.concatenate([pane.classes for pane in panes])[order]
        if panes[0].classes.shape[1]
        else ALL_CLASSES,
        np.concatenate([pane.labels for pane in panes])[order],
        keys[order],
        panes[0].m,
        first,
        min(times) if times else None,
        max(times) if times else None,
        level,
        sum(pane.seen for pane in panes),
    )
    if weights is None:
        return merged, np.empty(0)
    return merged, np.repeat(weights, [len(pane) for pane in panes])[order]


def merge_pair(
    run: Pane,
    marks: NDArray[Any],
    newest: int,
    oldest_age: int,
    pane: Pane,
    number: int,
    alive: int,
    first: int,
) -> tuple[Pane, NDArray[Any]]:
    """Merge a pane into a run of panes, and leave out those of the run that are too old.

    Parameters
    ----------
    run, marks
        Rows of several panes in order, and the lowest bits of the number of each row's pane.
    newest, oldest_age
        The number of the run's newest pane, and how many panes before that one may stay.
    pane, number
        What is new.
    alive
        How many of the run's rows stay.
    first
        The event number that the keys of the result count from.
    """
    n = alive + len(pane)
    top_k = run.classes.shape[1]
    rows = np.empty((n, run.rows.shape[1]), np.float32)
    classes = np.empty((n, top_k), np.uint16) if top_k else ALL_CLASSES
    labels = np.empty(n, np.uint16)
    keys = np.empty(n, np.uint64)
    marked = np.empty(n, marks.dtype)
    kernel.merge_pair(
        run.rows, run.classes, run.labels, run.keys, marks, newest, oldest_age, run.first - first,
        pane.rows, pane.classes, pane.labels, pane.keys, number, pane.first - first,
        rows, classes, labels, keys, marked,
    )  # fmt: skip
    return Pane(rows, classes, labels, keys, run.m, first), marked


def check_span(first: int, pane: Pane) -> None:
    """Refuse more events than keys can number."""
    if len(pane) and pane.last - first > INDEX:
        raise _too_long()


def _counted_rows(m: int) -> int:
    """After how many rows label counts are put down."""
    return max(256, 4 * m)


def bytes_of_counts(rows: int, m: int) -> int:
    """What the label counts of so many rows take."""
    return 8 * m * (rows // _counted_rows(m) + 1)


def _moved(keys: NDArray[np.uint64], by: int) -> NDArray[np.uint64]:
    """Keys that count from an event number lower by so many, or higher."""
    return keys + np.uint64(by % 2**64) if by else keys


def _too_long() -> InputError:
    return InputError(
        "window: more than 2**32 events are in scope, which is more than their order can be kept "
        "of; use a shorter window"
    )
