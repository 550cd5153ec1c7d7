"""Counting predictions as they are: what people do without an estimator."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stream_leip.arrays import Rows, Vector
from stream_leip.estimators.estimate import Estimate, Scope, check_scope, weigh
from stream_leip.profile import SourceProfile


@dataclass(frozen=True)
class ClassifyAndCount:
    """The share of each label among the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import ClassifyAndCount, fit_profile
    >>> known = np.arange(60) % 2
    >>> profile = fit_profile(3.0 * np.eye(2)[known] + np.arange(60)[:, None] % 7, known)
    >>> rows = profile.rows([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> ClassifyAndCount().estimate(rows, profile).prior
    array([0.75, 0.25])
    """

    def estimate(
        self,
        rows: Rows,
        profile: SourceProfile,
        *,
        weights: ArrayLike | None = None,
        start: ArrayLike | None = None,
    ) -> Estimate:
        """Estimate the prior; see `Estimator.estimate`."""
        scope = check_scope(rows, profile, weights, start)
        prior = label_shares(scope)
        return Estimate(prior, weigh(prior, profile.hard_prior), len(scope.rows))


@dataclass(frozen=True)
class MeanPosterior:
    """The mean of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import MeanPosterior, fit_profile
    >>> known = np.arange(60) % 2
    >>> profile = fit_profile(3.0 * np.eye(2)[known], known, calibration="none")
    >>> rows = profile.rows([[4.0, 0.0], [4.0, 0.0], [4.0, 0.0], [0.0, 4.0]])
    >>> MeanPosterior().estimate(rows, profile).prior.round(3)
    array([0.741, 0.259])
    """

    def estimate(
        self,
        rows: Rows,
        profile: SourceProfile,
        *,
        weights: ArrayLike | None = None,
        start: ArrayLike | None = None,
    ) -> Estimate:
        """Estimate the prior; see `Estimator.estimate`."""
        scope = check_scope(rows, profile, weights, start)
        prior = mean_row(scope)
        return Estimate(prior, weigh(prior, profile.soft_prior), len(scope.rows))


def label_shares(scope: Scope) -> Vector:
    """The weighted share of each label."""
    labels = scope.rows.argmax(axis=1)
    weights = scope.weights if len(scope.weights) else None
    return np.bincount(labels, weights, minlength=scope.rows.shape[1]) / scope.total


def mean_row(scope: Scope) -> Vector:
    """The weighted mean row, made to sum to one."""
    if len(scope.weights):
        mean = np.einsum("i,ij->j", scope.weights, scope.rows, dtype=np.float64)
    else:
        mean = scope.rows.sum(axis=0, dtype=np.float64)
    prior: Vector = mean / mean.sum()
    return prior
