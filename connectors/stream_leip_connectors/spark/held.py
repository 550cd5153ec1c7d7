"""Rows that wait for the watermark, and the order in which they go on.

Spark hands rows over in no order. So they wait until the watermark has passed them, and then go on
by time, and rows of the same time by what is in them: an order that is the same whatever the
partitions, the micro-batches and the order of arrival were, and so are the updates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip.arrays import Rows, Vector

VERSION = 1
# Odd, and as good as random: 2**64 over the golden ratio.
_MIX = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class Held:
    """Events of some keys.

    Parameters
    ----------
    names
        The keys.
    codes
        Which of them each event is of.
    times
        Epoch seconds.
    rows
        Those of bad events are NaN.
    """

    names: list[str]
    codes: NDArray[np.int32]
    times: Vector
    rows: Rows

    def __len__(self) -> int:
        return len(self.times)

    @classmethod
    def join(cls, parts: Sequence["Held"], m: int) -> "Held":
        """All events of several; of no events if there are none."""
        if not parts:
            return cls([], np.empty(0, np.int32), np.empty(0), np.empty((0, m), np.float32))
        index: dict[str, int] = {}
        codes = []
        for part in parts:
            new = [index.setdefault(name, len(index)) for name in part.names]
            codes.append(np.array(new, np.int32)[part.codes])
        return cls(
            list(index),
            np.concatenate(codes),
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.rows for part in parts]),
        )

    @property
    def bad(self) -> NDArray[np.bool_]:
        """Which events are bad."""
        return np.isnan(self.rows[:, 0])

    def keys(self) -> list[str]:
        """The key of each event."""
        return [self.names[code] for code in self.codes.tolist()]

    def some(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> "Held":
        """Some of the events."""
        return replace(
            self, codes=self.codes[which], times=self.times[which], rows=self.rows[which]
        )

    def compact(self) -> "Held":
        """The same events, without names that none of them has."""
        used, codes = np.unique(self.codes, return_inverse=True)
        names = [self.names[code] for code in used.tolist()]
        return replace(self, names=names, codes=codes.astype(np.int32))

    def in_order(self) -> "Held":
        """By time, and by what is in a row where times are the same."""
        return self.some(np.lexsort((_mixed(self.rows), self.times)))

    def by_pane(self, every: float) -> Iterator[tuple[float, "Held"]]:
        """The end of each pane of so many seconds, and its events; they are in order."""
        # Whole microseconds, as panes are cut.
        numbers = np.rint(self.times * 1e6).astype(np.int64) // round(every * 1e6)
        cuts = np.flatnonzero(np.diff(numbers)) + 1
        for which in np.split(np.arange(len(self)), cuts):
            yield (int(numbers[which[0]]) + 1) * round(every * 1e6) / 1e6, self.some(which)

    def to_bytes(self) -> bytes:
        """To be kept."""
        arrays: binary.Arrays = {"codes": self.codes, "times": self.times, "rows": self.rows}
        return binary.encode("held", VERSION, {"names": self.names}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Held":
        """As it was kept; SnapshotError if it was not."""
        fields, arrays = binary.decode(data, "held", VERSION)
        return cls(fields["names"], arrays["codes"], arrays["times"], arrays["rows"])


def _mixed(rows: Rows) -> NDArray[np.uint64]:
    """A number for each row that hangs on all of its bits."""
    mixed = np.zeros(len(rows), np.uint64)
    for column in np.ascontiguousarray(rows).view(np.uint32).T:
        mixed = (mixed ^ column) * _MIX
        mixed ^= mixed >> np.uint64(29)
    return mixed
