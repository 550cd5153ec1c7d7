"""Real classifier outputs for the tests."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parents[1] / "benchmarks" / "data"


@cache
def load(name: str) -> dict[str, NDArray[Any]]:
    """Validation and test logits and labels of "mnist_mlp" or "cifar10_resnet20"."""
    with np.load(FOLDER / f"{name}.npz") as data:
        return {key: data[key] for key in data.files}


def validation(name: str, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first `n` validation logits and labels."""
    data = load(name)
    return data["val_logits"][:n], data["val_labels"][:n].astype(np.int64)
