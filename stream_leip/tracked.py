"""What the tracker says, and the rows behind it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Matrix, Rows, Vector


@dataclass(frozen=True, eq=False)
class Tracked:
    """What the tracker says at one moment.

    Parameters
    ----------
    prior
        The class mix.
    memory
        How many events back the estimate looks: the mean over its experts.
    rung, length
        The estimate of the rung nearest to that, on a logarithmic scale, and how long it is.
    by_em
        Whether that is EM's, of exactly those rows and as near to its maximum as an update's is.
    weights, means, events
        Of each class's experts, classes × experts: weight, share, and events it counts for.
    """

    prior: Vector
    memory: float
    rung: Vector
    length: int
    by_em: bool
    weights: Matrix
    means: Matrix
    events: Matrix


@dataclass(frozen=True, eq=False)
class Recent:
    """The newest rows in order of arrival, to be used before more come; see `RowSet`.

    Parameters
    ----------
    rows, classes
        As a pane has them.
    keys, labels
        By confidence, with no place; and the class of the largest entry.
    first
        The event number of the first row.
    """

    rows: Rows
    classes: NDArray[np.uint16]
    keys: NDArray[np.uint64]
    labels: NDArray[np.uint16]
    first: int

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last event number."""
        return self.first, self.first + len(self.rows) - 1
