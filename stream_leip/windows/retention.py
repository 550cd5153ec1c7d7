"""Which sealed panes are still in scope, and with what weight."""

from dataclasses import dataclass, field

import numpy as np

from stream_leip.arrays import Vector
from stream_leip.pane import Pane

# Weights below 2**-20 change nothing: such panes go.
_HALVINGS = 20.0


@dataclass
class Retention:
    """Sealed panes by number; pane k covers the k-th stretch of events or of time.

    Parameters
    ----------
    span
        How many panes back are in scope; None for fading.
    half_life
        After how many panes a pane's weight halves; None where all weigh the same.
    """

    span: int | None
    half_life: float | None
    panes: dict[int, Pane] = field(default_factory=dict)

    def _oldest(self, edge: int) -> int:
        """The oldest pane in scope when all panes before `edge` are sealed."""
        if self.half_life is not None:
            return edge - 1 - int(_HALVINGS * self.half_life)
        assert self.span is not None
        return edge - self.span

    def add(self, number: int, pane: Pane) -> None:
        """Keep a pane that was sealed; numbers ascend."""
        self.panes[number] = pane

    def advance(self, edge: int) -> None:
        """Let go of what is out of scope when all panes before `edge` are sealed."""
        oldest = self._oldest(edge)
        while self.panes and (number := next(iter(self.panes))) < oldest:
            del self.panes[number]

    def in_scope(self, edge: int) -> list[Pane]:
        """The panes in scope, oldest first."""
        oldest = self._oldest(edge)
        return [pane for number, pane in self.panes.items() if oldest <= number < edge]

    def weights(self, edge: int) -> Vector | None:
        """A weight for each pane of `in_scope`; None where all weigh the same."""
        if self.half_life is None:
            return None
        oldest = self._oldest(edge)
        ages = [edge - 1 - number for number in self.panes if oldest <= number < edge]
        return np.asarray(np.exp2(-np.array(ages) / self.half_life))

    def reach(self, edge: int) -> int:
        """The number of the first pane that the window at `edge` covers."""
        return self._oldest(edge)

    @property
    def rows(self) -> int:
        """How many rows the panes hold."""
        return sum(len(pane) for pane in self.panes.values())

    def thin(self, level: int) -> None:
        """Thin all panes to a level."""
        self.panes = {number: pane.thin(level) for number, pane in self.panes.items()}
