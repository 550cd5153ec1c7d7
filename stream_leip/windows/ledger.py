"""What is known of each pane in scope, beside its rows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_leip.pane import Pane

# Event numbers `first` and `last`, times `start` and `end`, NaN where events have none.
_ENTRY = np.dtype(
    [(name, "<i8") for name in ("number", "n", "seen", "level", "first", "last")]
    + [(name, "<f8") for name in ("start", "end")]
)
BYTES_A_PANE = _ENTRY.itemsize
_NOTHING = np.empty(0, _ENTRY)


class Totals(NamedTuple):
    """Of all panes in scope together; see `Pane`. `level` is the highest, if they are mixed."""

    first: int
    start: float | None
    end: float | None
    level: int
    seen: int
    mixed: bool


class Ledger:
    """An entry for each pane in scope, oldest first, in one array: panes may be many and small."""

    __slots__ = ("_begin", "_entries", "_stop")

    def __init__(self, entries: NDArray[Any] = _NOTHING) -> None:
        self._entries = entries
        self._begin = 0
        self._stop = len(entries)

    def __len__(self) -> int:
        return self._stop - self._begin

    @property
    def _held(self) -> NDArray[Any]:
        return self._entries[self._begin : self._stop]

    @property
    def oldest(self) -> int:
        """The number of the oldest pane; there must be one."""
        return int(self._held["number"][0])

    @property
    def newest(self) -> int:
        """The number of the newest pane; there must be one."""
        return int(self._held["number"][-1])

    @property
    def last(self) -> int:
        """The highest event number; there must be one."""
        return int(self._held["last"].max())

    @property
    def levels(self) -> NDArray[np.int64]:
        """How thinned each pane is."""
        found: NDArray[np.int64] = self._held["level"]
        return found

    def places(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where panes of these numbers stand; -1 for one that is not here."""
        held = self._held["number"]
        found = np.minimum(np.searchsorted(held, numbers), len(held) - 1)
        return np.where(held[found] == numbers, found, -1)

    def add(self, number: int, pane: Pane) -> None:
        """Put down a pane; numbers ascend."""
        if self._stop == len(self._entries):
            held = self._held
            self._entries = np.empty(len(held) + max(1, len(held) // 4), _ENTRY)
            self._entries[: len(held)] = held
            self._begin, self._stop = 0, len(held)
        times = [np.nan if time is None else time for time in (pane.start, pane.end)]
        self._entries[self._stop] = (
            number, len(pane), pane.seen, pane.level, pane.first, pane.last, *times,
        )  # fmt: skip
        self._stop += 1

    def drop_before(self, number: int) -> int:
        """Strike out the panes before a number; return how many rows they had."""
        held = self._held
        gone = int(np.searchsorted(held["number"], number))
        self._begin += gone
        return int(held["n"][:gone].sum())

    def totals(self) -> Totals:
        """Of all panes; there must be one."""
        held = self._held
        filled = held["first"][held["n"] > 0]
        timed = held[~np.isnan(held["start"])]
        level = int(held["level"].max())
        return Totals(
            int(filled.min()) if len(filled) else 0,
            float(timed["start"].min()) if len(timed) else None,
            float(timed["end"].max()) if len(timed) else None,
            level,
            int(held["seen"].sum()),
            bool((held["level"] != level).any()),
        )

    def since(self, number: int) -> tuple[int, int]:
        """Of the panes from a number on: the highest level, and how many rows."""
        held = self._held
        kept = held[held["number"] >= number]
        return int(kept["level"].max(initial=0)), int(kept["n"].sum())

    def thin(self, level: int, ages: NDArray[np.int64]) -> None:
        """Put down a thinning; `ages` are of the rows that stayed, in panes before the newest."""
        held = self._held
        newest = int(held["number"][-1])
        by_age = np.bincount(ages, minlength=newest - int(held["number"][0]) + 1)
        held["n"] = by_age[newest - held["number"]]
        np.maximum(held["level"], level, out=held["level"])

    def copy(self) -> "Ledger":
        """Another of the same entries."""
        return Ledger(self._held.copy())

    def to_array(self) -> NDArray[np.int64]:
        """The entries as plain numbers, for a snapshot."""
        return self._held.view("<i8")

    @classmethod
    def from_array(cls, array: NDArray[np.int64]) -> "Ledger":
        """The ledger that `to_array` gave."""
        return cls(array.view(_ENTRY))
