"""Whether adapting pays: asked of the labelled pairs that the profile has not seen yet."""

from math import exp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import EM, SourceProfile
from stream_leip.adapt import adapt, shrink
from stream_leip.arrays import Labels, Matrix, Scores, Vector
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.pane import Pane
from stream_leip_connectors.river.weighing import floored

# What was found is worth less with each batch of pairs that comes after. Hits are few and tell
# slowly, so they are remembered for longer.
_FADE = 0.8
_FADE_HITS = 0.95
# In log-likelihood: what is held against adapting at first, and at most.
_DOUBT = 10.0
_MOST = 10.0
# What a mix costs that is estimated from so few events, for each share that is free.
_ALLOWED = 0.5


class Trust:
    """How far the mix of unlabelled events is believed, from 0 to 1.

    While a model learns fast its newest scores are not those of the pairs it left behind, and that
    looks like another mix. A batch of pairs shows it: their mix is estimated as if they had no
    labels, and if posteriors adapted to it are worse than the model's, there is more than label
    shift in them. Both have the same scale, as overconfidence is another matter.
    """

    def __init__(self) -> None:
        self._against = _DOUBT
        self._lost = 0.0
        self._changed = 0.0

    @property
    def against(self) -> float:
        """What is held against adapting, in log-likelihood or in hits beyond their noise."""
        return max(self._against, self._lost - sqrt(self._changed))

    def ask(self, scores: Matrix, labels: Labels, profile: SourceProfile) -> None:
        """Try a profile on pairs that it was not fitted to."""
        plain = floored(scores)
        rows = profile.rows(plain)
        pane = Pane.seal(rows, np.arange(len(rows)))
        found = EM().estimate_ranked(pane, profile, NO_WEIGHTS).prior
        mix = shrink(found, pane, NO_WEIGHTS, float(len(rows)), profile)
        adapted = adapt(rows, mix, profile.soft_prior).astype(float)
        scaled = plain ** float(profile.calibrator.scale[0])
        scaled /= scaled.sum(axis=1, keepdims=True)
        worse = _loss(adapted, labels) - _loss(scaled, labels) - _ALLOWED * (len(mix) - 1)
        self._against = float(np.clip(_FADE * self._against + worse, -_MOST, _MOST))
        lost = _hits(scaled, labels).astype(float) - _hits(adapted, labels)
        self._changed = _FADE_HITS * self._changed + float(np.abs(lost).sum())
        # Beyond the noise of so many changed labels nothing is held against adapting, or for it.
        most = sqrt(self._changed) + _MOST
        self._lost = float(np.clip(_FADE_HITS * self._lost + lost.sum(), -_MOST, most))


class Forecast:
    """What adapting to a mix would do to hits, by the pairs that the profile was fitted to.

    What is lost and won so far was lost and won under older mixes, and labels are late. But under
    label shift the hits to come are known: those of the pairs, each class weighed by its share now.

    Parameters
    ----------
    profile
        The source; its calibrator has one scale.
    scores, labels
        The pairs it was fitted to: floored posteriors, and columns of the labels.
    """

    def __init__(self, profile: SourceProfile, scores: Scores, labels: Labels) -> None:
        self._labels = labels.astype(np.uint16)
        scaled: Scores = scores ** float(profile.calibrator.scale[0])
        self._scaled = scaled.astype(np.float32)
        self._hits = _hits(scaled, labels)
        self._counts = np.bincount(labels, minlength=len(profile.classes))

    def against(self, factors: Vector, prior: Vector) -> float:
        """Hits that are lost under a mix, beyond their noise, if posteriors have these factors."""
        lost = self._hits.astype(float) - _hits(
            self._scaled * factors.astype(np.float32), self._labels
        )
        weights = (len(lost) * prior / self._counts)[self._labels]
        lost *= weights
        return float(lost.sum() - sqrt(lost @ lost))


def share(against: float) -> float:
    """The part of a posterior that is adapted; the rest is as the model has it."""
    return 1.0 / (1.0 + exp(min(2.0 * against, 700.0)))


def _hits(posteriors: Scores, labels: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    return np.asarray(posteriors.argmax(axis=1) == labels)


def _loss(posteriors: Matrix, labels: Labels) -> float:
    return float(-np.log(np.maximum(posteriors[np.arange(len(labels)), labels], 1e-12)).sum())
