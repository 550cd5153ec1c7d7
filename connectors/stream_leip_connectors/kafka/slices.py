"""Slices: a partition's rows on their way to the one process that sees the whole topic."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip.arrays import Rows, Vector
from stream_leip_connectors.kafka.changelog import PART

VERSION = 1


class Slice(NamedTuple):
    """Some rows of a partition, in its order.

    Parameters
    ----------
    partition
        Of the input.
    mark
        The partition's watermark after them: no row that comes later is older.
    idle
        Whether the partition is quiet, so that nobody need wait for it.
    rows, times, offsets
        Of events that can be used and are not late.
    """

    partition: int
    mark: float
    idle: bool
    rows: Rows
    times: Vector
    offsets: NDArray[np.int64]

    def some(self, which: NDArray[np.bool_]) -> "Slice":
        """The same, with some of its rows."""
        rows, times, offsets = self.rows[which], self.times[which], self.offsets[which]
        return self._replace(rows=rows, times=times, offsets=offsets)

    def to_bytes(self) -> bytes:
        """To be written."""
        fields = {"partition": self.partition, "mark": self.mark, "idle": self.idle}
        arrays: dict[str, NDArray[Any]] = {
            "rows": self.rows,
            "times": self.times,
            "offsets": self.offsets,
        }
        return binary.encode("slice", VERSION, fields, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Slice":
        """As it was written; SnapshotError if it was not."""
        fields, arrays = binary.decode(data, "slice", VERSION)
        return cls(**fields, rows=arrays["rows"], times=arrays["times"], offsets=arrays["offsets"])

    def parts(self, lateness: float, before: float) -> Iterator["Slice"]:
        """Slices that fit a record, each with the watermark after its own rows.

        Parameters
        ----------
        lateness
            Seconds that the watermark is behind the newest row.
        before
            The newest time before these rows.
        """
        step = max(1, (PART - 1000) // (self.rows.itemsize * self.rows.shape[1] + 16))
        newest = np.maximum.accumulate(np.concatenate([[before], self.times]))[1:]
        for begin in range(0, len(self.times), step):
            mine = slice(begin, begin + step)
            yield Slice(
                self.partition,
                float(newest[mine][-1]) - lateness,
                False,
                self.rows[mine],
                self.times[mine],
                self.offsets[mine],
            )
