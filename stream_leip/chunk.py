"""The chunk: rows on their way to where a state is kept, a few at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip.arrays import Rows
from stream_leip.errors import SnapshotError
from stream_leip.estimators.estimate import ALL_CLASSES

VERSION = 1
_NO_PANES = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows of a stream in order of arrival.

    A snapshot without rows and the chunks of all rows that it has are as good as a whole one.

    Parameters
    ----------
    rows, classes
        As in a pane.
    events
        The event number of each row, ascending.
    panes
        The number of each row's pane; empty where event numbers tell.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.chunk import Chunk
    >>> rows = np.array([[0.6, 0.4], [0.1, 0.9], [0.8, 0.2]], np.float32)
    >>> chunk = Chunk(rows, events=np.array([7, 8, 9]))
    >>> Chunk.join([Chunk.from_bytes(chunk.to_bytes()), chunk]).events
    array([7, 8, 9, 7, 8, 9])
    """

    rows: Rows
    classes: NDArray[np.uint16] = field(default_factory=lambda: ALL_CLASSES)
    events: NDArray[np.int64] = field(default_factory=lambda: _NO_PANES)
    panes: NDArray[np.int64] = field(default_factory=lambda: _NO_PANES)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, which: slice | NDArray[Any]) -> "Chunk":
        """Some of the rows."""
        return Chunk(
            self.rows[which],
            self.classes[which] if self.classes.shape[1] else ALL_CLASSES,
            self.events[which],
            self.panes[which] if len(self.panes) else _NO_PANES,
        )

    def of_panes(self, panes: NDArray[np.int64]) -> "Chunk":
        """The same rows, with the number of each one's pane."""
        return Chunk(self.rows, self.classes, self.events, panes)

    @classmethod
    def join(cls, chunks: Sequence["Chunk"]) -> "Chunk":
        """One chunk after the other; there must be one."""
        filled = [chunk for chunk in chunks if len(chunk)] or chunks[:1]
        if len(filled) == 1:
            return filled[0]
        return cls(*(np.concatenate(parts) for parts in zip(*map(_arrays, filled), strict=True)))

    def to_bytes(self) -> bytes:
        """The chunk in bytes; numbers that follow from the first one are left out."""
        events, panes = self.events, self.panes
        fields: dict[str, Any] = {}
        if len(events) and int(events[-1]) - int(events[0]) == len(events) - 1:
            fields["first"] = int(events[0])
            events = _NO_PANES
        if len(panes) and (panes == panes[0]).all():
            fields["pane"] = int(panes[0])
            panes = _NO_PANES
        arrays: binary.Arrays = {
            "rows": self.rows,
            "classes": self.classes,
            "events": events,
            "panes": panes,
        }
        return binary.encode("chunk", VERSION, fields, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Chunk":
        """The chunk that `to_bytes` gave; SnapshotError for anything else."""
        fields, arrays = binary.decode(data, "chunk", VERSION)
        n = len(arrays["rows"])
        if "first" in fields:
            arrays["events"] = np.arange(fields["first"], fields["first"] + n)
        if "pane" in fields:
            arrays["panes"] = np.full(n, fields["pane"], np.int64)
        return cls(**arrays)


def check_complete(chunk: Chunk, n: int) -> None:
    """Refuse other rows than a snapshot without rows speaks of."""
    if len(chunk) != n:
        raise SnapshotError(
            f"chunks: {len(chunk)} of the {n} rows that the snapshot speaks of; give the chunks "
            "of all rows since the oldest"
        )


def _arrays(chunk: Chunk) -> tuple[NDArray[Any], ...]:
    return chunk.rows, chunk.classes, chunk.events, chunk.panes
