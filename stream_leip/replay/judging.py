"""Running scores of a replay: of predictions, of estimates, of alarms."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from stream_leip.arrays import Labels, Matrix, Rows, Vector
from stream_leip.replay.result import Alarms, Errors, Predictions

# A probability of less counts as this in the log loss.
_LEAST = 1e-12
# By this much, in total variation, the true mix may move before an alarm is right.
STILL = 0.01


class PredictionScore:
    """Predictions against true labels, in all and by stretch of the stream."""

    def __init__(self, m: int, stretches: int) -> None:
        self._right = np.zeros((stretches, m))
        self._all = np.zeros((stretches, m))
        self._loss = 0.0

    def add(self, rows: Rows, labels: Labels, stretch: Labels) -> None:
        """Count some predictions."""
        right = rows.argmax(axis=1) == labels
        np.add.at(self._all, (stretch, labels), 1.0)
        np.add.at(self._right, (stretch, labels), right)
        given = rows[np.arange(len(rows)), labels].astype(np.float64)
        self._loss -= float(np.log(np.maximum(given, _LEAST)).sum())

    def result(self) -> Predictions:
        """The scores so far."""
        right, total = self._right.sum(axis=0), self._all.sum(axis=0)
        n = total.sum()
        came = total > 0
        return Predictions(
            accuracy=_ratio(right.sum(), n),
            macro_recall=float((right[came] / total[came]).mean()) if came.any() else float("nan"),
            log_loss=_ratio(self._loss, n),
            over_time=_ratios(self._right.sum(axis=1), self._all.sum(axis=1)),
        )


@dataclass
class EstimateScore:
    """Estimates against the true mix."""

    source: Vector
    stretches: int
    updates: int = 0
    total_variation: float = 0.0
    weights_mse: float = 0.0
    covered: int = 0
    intervals: int = 0
    width: float = 0.0
    standing: Vector = field(init=False)
    events: Vector = field(init=False)

    def __post_init__(self) -> None:
        self.standing = np.zeros(self.stretches)
        self.events = np.zeros(self.stretches)

    def add_update(
        self, prior: Vector, truth: Vector, low: Vector | None, high: Vector | None
    ) -> None:
        """Judge an update by the mix at its time."""
        self.updates += 1
        self.total_variation += 0.5 * float(np.abs(prior - truth).sum())
        self.weights_mse += float(np.mean(((prior - truth) / self.source) ** 2))
        if low is not None and high is not None:
            self.covered += int(((low <= truth) & (truth <= high)).sum())
            self.intervals += len(truth)
            self.width += float((high - low).sum())

    def add_standing(self, priors: Matrix, truths: Matrix, stretch: Labels) -> None:
        """Judge the estimate that stood when each event came."""
        apart = 0.5 * np.abs(priors - truths).sum(axis=1)
        self.standing += np.bincount(stretch, apart, self.stretches)
        self.events += np.bincount(stretch, minlength=self.stretches)

    def result(self) -> Errors:
        """The scores so far."""
        some = self.intervals > 0
        return Errors(
            total_variation=_ratio(self.total_variation, self.updates),
            l1=2.0 * _ratio(self.total_variation, self.updates),
            weights_mse=_ratio(self.weights_mse, self.updates),
            standing=_ratio(self.standing.sum(), self.events.sum()),
            over_time=_ratios(self.standing, self.events),
            coverage=self.covered / self.intervals if some else None,
            width=self.width / self.intervals if some else None,
        )


class AlarmScore:
    """Alarms against the true mix. An alarm is false if the mix has not moved since the last one.

    Parameters
    ----------
    source
        What the mix is before the first alarm, as far as the monitor knows.
    """

    def __init__(self, source: Vector) -> None:
        self._home = source
        self._moved = 0.0
        self._false = 0
        self._up = {"raised": False, "warning": False}
        self._onsets: dict[str, list[int]] = {"raised": [], "warning": []}
        self.any = False

    def follow(self, truths: Matrix) -> None:
        """Note how far the true mix goes from where it was at the last alarm."""
        if len(truths):
            apart = 0.5 * np.abs(truths - self._home).sum(axis=1)
            self._moved = max(self._moved, float(apart.max()))

    def add(self, alarm: dict[str, Any] | None, number: int, truth: Vector) -> None:
        """Look at an update's alarm."""
        if alarm is None:
            return
        self.any = True
        for name, onsets in self._onsets.items():
            up = bool(alarm.get(name))
            if up and not self._up[name]:
                onsets.append(number)
                if name == "raised":
                    self._false += self._moved <= STILL
                    self._home, self._moved = truth, 0.0
            self._up[name] = up

    def result(self, changes: tuple[int, ...], n: int) -> Alarms | None:
        """The alarms so far, and how long after each true change the first came."""
        if not self.any:
            return None
        raised = np.array(self._onsets["raised"], np.int64)
        delays: list[int | None] = []
        for change, following in pairwise((*changes, n)):
            found = raised[(raised > change) & (raised <= following)]
            delays.append(int(found[0]) - change if len(found) else None)
        return Alarms(
            tuple(raised.tolist()), tuple(self._onsets["warning"]), self._false, tuple(delays)
        )


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else float("nan")


def _ratios(part: Vector, whole: Vector) -> Vector:
    found = np.full(len(whole), np.nan)
    np.divide(part, whole, out=found, where=whole > 0)
    return found
