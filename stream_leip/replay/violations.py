"""Changes of the scores that are not label shift, to see an assumption check at work."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Kind, Labels, Matrix, Scores
from stream_leip.checks import check_above_zero, check_from_zero
from stream_leip.replay.schedule import place_in


class Violation(Protocol):
    """A change of the scores of some events."""

    def reach(self, n: int) -> tuple[int, int]:
        """The first event that it touches, and the first one after those."""

    def change(self, logits: Matrix, labels: Labels, rng: np.random.Generator) -> Matrix:
        """The logits as they become."""


@dataclass(frozen=True)
class LogitNoise:
    """Normal noise on every logit.

    Parameters
    ----------
    sd
        Its standard deviation.
    begin, end
        Where in the stream: event numbers (int), or shares of its length (float).
    label
        Only events of this class, by its place; all unless given.

    Examples
    --------
    >>> from stream_leip.replay import LogitNoise
    >>> LogitNoise(sd=2.0, begin=0.5)
    LogitNoise(sd=2.0, begin=0.5, end=1.0, label=None)
    """

    sd: float = 1.0
    begin: float = 0.0
    end: float = 1.0
    label: int | None = None

    def __post_init__(self) -> None:
        check_from_zero("sd", self.sd)

    def reach(self, n: int) -> tuple[int, int]:
        """The first event that it touches, and the first one after those."""
        return place_in("begin", self.begin, n), place_in("end", self.end, n)

    def change(self, logits: Matrix, labels: Labels, rng: np.random.Generator) -> Matrix:
        """The logits as they become."""
        noise = self.sd * rng.normal(size=logits.shape)
        if self.label is not None:
            noise[labels != self.label] = 0.0
        return np.asarray(logits + noise)


@dataclass(frozen=True)
class Temperature:
    """Every logit times a factor: a classifier that grew more or less sure of itself.

    Parameters
    ----------
    factor
        Below one for less sure, above for more.
    begin, end
        Where in the stream: event numbers (int), or shares of its length (float).

    Examples
    --------
    >>> from stream_leip.replay import Temperature
    >>> Temperature(0.7).reach(1000)
    (0, 1000)
    """

    factor: float = 0.7
    begin: float = 0.0
    end: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero("factor", self.factor)

    def reach(self, n: int) -> tuple[int, int]:
        """The first event that it touches, and the first one after those."""
        return place_in("begin", self.begin, n), place_in("end", self.end, n)

    def change(self, logits: Matrix, labels: Labels, rng: np.random.Generator) -> Matrix:
        """The logits as they become."""
        return np.asarray(logits * self.factor)


def violate(
    scores: Scores,
    labels: Labels,
    touched: NDArray[np.bool_],
    violation: Violation,
    kind: Kind,
    rng: np.random.Generator,
) -> Scores:
    """Scores with some of them changed; probabilities are changed by way of their logarithms."""
    given = scores.astype(np.float64)
    logits = given if kind == "logits" else np.log(np.maximum(given, 1e-12))
    changed = violation.change(logits, labels, rng)
    if kind == "probabilities":
        changed = np.exp(changed - changed.max(axis=1, keepdims=True))
        changed /= changed.sum(axis=1, keepdims=True)
    return np.where(touched[:, None], changed, given).astype(scores.dtype)
