"""The logits and labels of `benchmarks/data`."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Labels

FOLDER = Path(__file__).parent / "data"


class Data(StrEnum):
    """The data sets, by the name that commands take."""

    MNIST = "mnist"
    CIFAR10 = "cifar10"


_FILES = {Data.MNIST: "mnist_mlp.npz", Data.CIFAR10: "cifar10_resnet20.npz"}


@dataclass(frozen=True, eq=False)
class Scored:
    """Logits of a network and the true labels; the test rows are the pool that shifts draw from."""

    val_logits: NDArray[np.float32]
    val_labels: Labels
    test_logits: NDArray[np.float32]
    test_labels: Labels

    @property
    def accuracy(self) -> float:
        """The share of test rows whose largest logit is that of their label."""
        return float(np.mean(self.test_logits.argmax(axis=1) == self.test_labels))


def load(data: Data) -> Scored:
    """Read one data set."""
    with np.load(FOLDER / _FILES[data]) as held:
        return Scored(
            held["val_logits"],
            held["val_labels"].astype(np.int64),
            held["test_logits"],
            held["test_labels"].astype(np.int64),
        )
