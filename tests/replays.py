"""Labelled scores for replays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

M = 3


def scored(n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(M, size=n)
    return 2.5 * np.eye(M)[labels] + rng.normal(size=(n, M)), labels
