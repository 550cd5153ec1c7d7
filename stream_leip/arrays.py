"""Names for the arrays that pass between modules."""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Rows: TypeAlias = NDArray[np.float32]
Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.int64]
Scores: TypeAlias = NDArray[np.floating[Any]]
Kind: TypeAlias = Literal["logits", "probabilities"]


def is_number(value: object) -> bool:
    """Whether a setting is a plain number; NaN passes, so compare as well."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
