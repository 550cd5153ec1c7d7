"""Which sealed panes are still in scope, and with what weight."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import binary
from stream_leip._kernels import panes as kernel
from stream_leip.arrays import Vector
from stream_leip.chunk import Chunk, check_complete
from stream_leip.pane import Pane, check_span, merge_pair
from stream_leip.windows.ledger import Ledger

VERSION = 1
# Weights below 2**-20 change nothing: such panes go.
_HALVINGS = 20.0


class Retention:
    """The sealed panes in scope; pane k covers the k-th stretch of events or of time.

    They are one run of rows, into which each new pane is merged: an update costs a pass over the
    rows in scope, however many panes they came in. A mark on each row, the lowest bits of its
    pane's number, says which pane it is of. Rows of a pane that leaves the scope stay until the
    next pass, or until `compact`.

    Parameters
    ----------
    span
        How many panes back are in scope; None for fading.
    half_life
        After how many panes a pane's weight halves; None where all weigh the same.
    """

    __slots__ = ("_ledger", "_marks", "_newest", "_run", "half_life", "oldest", "rows", "span")

    def __init__(self, span: int | None, half_life: float | None) -> None:
        self.span = span
        self.half_life = half_life
        self._clear()

    def _clear(self) -> None:
        self._ledger = Ledger()
        self._run: Pane | None = None
        self._marks: NDArray[Any] | None = None  # as long as the run is of one pane
        self._newest = 0  # the pane that was last merged into the run
        self.oldest: int | None = None  # the oldest pane in scope
        self.rows = 0  # how many are in scope

    @property
    def most_panes(self) -> int:
        """How many panes can be in scope at a time."""
        if self.half_life is not None:
            return int(_HALVINGS * self.half_life) + 1
        assert self.span is not None
        return self.span

    def reach(self, edge: int) -> int:
        """The number of the first pane in scope when all panes before `edge` are sealed."""
        return edge - self.most_panes

    def advance(self, edge: int) -> None:
        """Let go of what is out of scope when all panes before `edge` are sealed."""
        reach = self.reach(edge)
        if self.oldest is None or self.oldest >= reach:
            return
        self.rows -= self._ledger.drop_before(reach)
        if len(self._ledger):
            self.oldest = self._ledger.oldest
        else:
            self._clear()

    def add(self, number: int, pane: Pane) -> None:
        """Keep a pane that was sealed; numbers ascend, and `advance` came before."""
        if self._run is None or self.oldest is None:
            self._run = pane
            self._ledger.add(number, pane)
            self.oldest = number
        else:
            check_span(self._ledger.totals().first, pane)
            self._ledger.add(number, pane)
            self._run, self._marks = merge_pair(
                self._run, self._marked(), self._newest, self._newest - self.oldest,
                pane, number, self.rows, self._ledger.totals().first,
            )  # fmt: skip
        self._newest = number
        self.rows += len(pane)

    def _marked(self) -> NDArray[Any]:
        """The mark of each row of the run."""
        assert self._run is not None
        if self._marks is not None:
            return self._marks
        kind = np.min_scalar_type(self.most_panes - 1)
        return np.full(len(self._run), self._newest % 2 ** (8 * kind.itemsize), kind)

    def _ages(self) -> NDArray[np.int64]:
        """How many panes before the newest each row of the run came."""
        assert self._run is not None
        if self._marks is None:
            return np.zeros(len(self._run), np.int64)
        found: NDArray[np.int64] = kernel.ages(self._marks, self._newest)
        return found

    def compact(self) -> None:
        """Let go of the rows that are out of scope at once."""
        if self._run is not None and self.oldest is not None and len(self._run) > self.rows:
            self._keep(self._ages() <= self._newest - self.oldest)

    def _keep(self, stay: NDArray[np.bool_]) -> None:
        assert self._run is not None
        self._run = self._run.take(stay, self._ledger.totals().first)
        self._marks = None if self._marks is None else self._marks[stay]

    def thin(self, level: int) -> None:
        """Thin all panes to a level."""
        self.compact()
        if self._run is None:
            return
        stay = kernel.kept(self._run.events, level)
        self._ledger.thin(level, self._ages()[stay])
        self._keep(stay)
        self.rows = len(self._run)

    def level_and_rows(self, edge: int) -> tuple[int, int]:
        """The highest level and the rows of what stays in scope at `edge`."""
        if self.oldest is None:
            return 0, 0
        return self._ledger.since(self.reach(edge))

    def merged(self, edge: int) -> tuple[Pane | None, Vector | None]:
        """One pane of what is in scope, and a weight for each row where they are not the same."""
        self.compact()
        if self._run is None:
            return None, None
        totals = self._ledger.totals()
        pane = self._run
        weights = None if self.half_life is None else self._weights(edge, self.half_life)
        if totals.mixed:
            stay = kernel.kept(pane.events, totals.level)
            pane = pane.take(stay, pane.first)
            weights = None if weights is None else weights[stay]
        if totals.mixed or (pane.start, pane.end, pane.level, pane.seen) != totals[1:5]:
            pane = replace(
                pane, start=totals.start, end=totals.end, level=totals.level, seen=totals.seen
            )
        return pane, weights

    def _weights(self, edge: int, half_life: float) -> Vector:
        """Of each row of the run."""
        by_age = np.arange(self.most_panes) + (edge - 1 - self._newest)
        return np.asarray(np.exp2(-by_age / half_life)[self._ages()])

    @property
    def bytes_a_mark(self) -> int:
        """What a row takes to say which pane it is of."""
        return 0 if self.most_panes == 1 else np.min_scalar_type(self.most_panes - 1).itemsize

    def copy(self) -> "Retention":
        """Another of the same panes."""
        other = Retention(self.span, self.half_life)
        other._ledger = self._ledger.copy()
        other._run, other._marks = self._run, self._marks
        other._newest, other.oldest, other.rows = self._newest, self.oldest, self.rows
        return other

    @property
    def oldest_event(self) -> int | None:
        """No row has a lower event number; None if there are none."""
        return self._ledger.totals().first if self.rows else None

    def since(self, event: int) -> Chunk | None:
        """The rows from an event number on, with their panes; None if there are none."""
        if not self.rows or self._ledger.last < event:
            return None
        self.compact()
        assert self._run is not None
        which = np.flatnonzero(self._run.events >= event)
        which = which[np.argsort(self._run.events[which])]
        run = self._run
        classes = run.classes[which] if run.classes.shape[1] else run.classes
        panes = self._newest - self._ages()[which]
        return Chunk(run.rows[which], classes, run.events[which], panes)

    def to_bytes(self, *, rows: bool = True) -> bytes | None:
        """The panes in bytes; None if there are none."""
        self.compact()
        if self._run is None:
            return None
        run = self._run
        n = len(run) if rows else 0
        fields = {"m": run.m, "first": run.first, "newest": self._newest}
        arrays: binary.Arrays = {
            "rows": run.rows[:n],
            "classes": run.classes[:n],
            "labels": run.labels[:n],
            "keys": run.keys[:n],
            "marks": self._marked()[:n],
            "panes": self._ledger.to_array(),
        }
        return binary.encode("retained", VERSION, fields, arrays)

    def restore(self, data: bytes | None, chunk: Chunk | None = None) -> None:
        """Take over what `to_bytes` gave; without its rows, these are taken from `chunk`."""
        self._clear()
        if data is None:
            return
        fields, arrays = binary.decode(data, "retained", VERSION)
        self._ledger = Ledger.from_array(arrays["panes"])
        if chunk is not None:
            chunk = self._of_ours(chunk)
            pane = Pane.seal(chunk.rows, chunk.events, chunk.classes, fields["m"])
            pane = pane.take(np.ones(len(pane), np.bool_), fields["first"])
            kind = arrays["marks"].dtype
            of_row = chunk.panes[np.searchsorted(chunk.events, pane.events)]
            arrays |= {"rows": pane.rows, "classes": pane.classes, "labels": pane.labels}
            arrays |= {"keys": pane.keys, "marks": of_row.astype(kind)}
        check_complete(Chunk(arrays["rows"]), self._ledger.since(self._ledger.oldest)[1])
        totals = self._ledger.totals()
        self._run = Pane(
            arrays["rows"], arrays["classes"], arrays["labels"], arrays["keys"], fields["m"],
            fields["first"], totals.start, totals.end, totals.level, totals.seen,
        )  # fmt: skip
        self._marks = arrays["marks"] if len(self._ledger) > 1 else None
        self._newest = fields["newest"]
        self.oldest = self._ledger.oldest
        self.rows = len(self._run)

    def _of_ours(self, chunk: Chunk) -> Chunk:
        """The rows of a chunk that are of our panes, thinned as these are."""
        place = self._ledger.places(chunk.panes)
        chunk, place = chunk.take(place >= 0), place[place >= 0]
        levels = self._ledger.levels[place]
        stay = np.ones(len(chunk), np.bool_)
        for level in np.unique(levels[levels > 0]).tolist():
            stay &= (levels != level) | kernel.kept(chunk.events, level)
        return chunk.take(stay)
