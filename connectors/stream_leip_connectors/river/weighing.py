"""Posteriors of a model to rows, and to posteriors under another mix: p**scale · factor."""

from collections.abc import Hashable, Mapping
from math import isfinite
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError
from stream_leip.arrays import Matrix, Rows, Vector
from stream_leip.profile import SourceProfile

# Counting models say 0 where they mean "not seen": below this a posterior tells nothing.
FLOOR = 1e-6
_SUM = 1e-9


def checked(scores: Mapping[Any, float], model: str) -> Mapping[Any, float]:
    """A model's posteriors, summing to one; empty where the model has no opinion.

    Raises
    ------
    InputError
        If one is no probability; the message names the model.
    """
    total = sum(scores.values())
    if -_SUM <= total - 1.0 <= _SUM and min(scores.values()) >= 0.0:
        return scores
    for name, p in scores.items():
        if not (p >= 0.0 and isfinite(p)):
            raise InputError(
                f"model: {model} gave {p!r} as the probability of {name!r}; "
                "mend the model, or what it is fed"
            )
    return {name: p / total for name, p in scores.items()} if total > 0.0 else {}


def floored(scores: Matrix) -> Matrix:
    """Posteriors of some of the classes: none below the floor, each line summing to one."""
    out = np.maximum(scores, FLOOR)
    out /= out.sum(axis=1, keepdims=True)
    return out


class Weighing:
    """What a source profile, and a mix, make of a model's posteriors.

    The same as the profile's gate and `stream_leip.adapt` make of the floored ones, for one event,
    with no array in between.

    Parameters
    ----------
    profile
        The source; its calibrator has one scale.
    labels
        Its classes, as the model names them.
    prior
        The mix that posteriors are to be under.
    """

    __slots__ = ("factors", "labels", "other", "scale")

    def __init__(self, profile: SourceProfile, labels: list[Hashable], prior: Vector) -> None:
        calibrator = profile.calibrator
        logs = calibrator.bias + np.log(np.maximum(prior, 1e-300) / profile.soft_prior)
        top = float(logs.max())
        self.labels = labels
        self.scale = float(calibrator.scale[0])
        self.factors: dict[Hashable, float] = dict(
            zip(labels, np.exp(logs - top).tolist(), strict=True)
        )
        # A class that the profile does not know is as the model has it; biases are zero on average.
        self.other = float(np.exp(min(-top, 700.0)))

    def posteriors(self, scores: Mapping[Any, float], trust: float) -> dict[Any, float]:
        """All that the model said, a part of it under the mix, the rest as it was."""
        top, scale = max(scores.values()), self.scale
        plain = [((p if p > FLOOR else FLOOR) / top) ** scale for p in scores.values()]
        factors, other = self.factors, self.other
        factor = [factors.get(label, other) for label in scores]
        total = sum(map(mul, plain, factor))
        if not total > 0.0:
            return dict(scores)
        under, beside = trust / total, (1.0 - trust) / sum(plain)
        return {
            label: value * (under * by + beside)
            for label, value, by in zip(scores, plain, factor, strict=True)
        }

    def row(self, scores: Mapping[Any, float]) -> list[float] | None:
        """Entries of the known classes; None where the model thinks of another one."""
        known = [scores.get(label, 0.0) for label in self.labels]
        if sum(known) < 0.5:
            return None
        top, scale = max(known), self.scale
        weighed = [
            ((p if p > FLOOR else FLOOR) / top) ** scale * factor
            for p, factor in zip(known, self.factors.values(), strict=True)
        ]
        total = sum(weighed)
        return [value / total for value in weighed] if total > 0.0 else None

    def rows(self, known: Matrix) -> tuple[Rows, NDArray[np.bool_]]:
        """As `row`, for lines of the known classes; and which of the lines are rows."""
        fine = known.sum(axis=1) >= 0.5
        factor = np.array(list(self.factors.values()))
        top = np.where(fine, known.max(axis=1), 1.0)[:, None]
        weighed = (np.maximum(known, FLOOR) / top) ** self.scale * factor
        total = weighed.sum(axis=1)
        fine &= total > 0.0
        return (weighed[fine] / total[fine, None]).astype(np.float32), fine

    def many(self, scores: Matrix, labels: list[Any], trust: float) -> Matrix:
        """As `posteriors`, for lines of scores in the order of `labels`."""
        factor = np.array([self.factors.get(label, self.other) for label in labels])
        plain = (np.maximum(scores, FLOOR) / scores.max(axis=1, keepdims=True)) ** self.scale
        total = (plain @ factor)[:, None]
        fine = total > 0.0
        under = trust * factor / np.where(fine, total, 1.0)
        beside = (1.0 - trust) / plain.sum(axis=1, keepdims=True)
        return np.where(fine, plain * (under + beside), scores)
