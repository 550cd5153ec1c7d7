"""Estimators that invert the validation confusion: BBSE and RLLS."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stream_leip._kernels.quadratic import nonnegative
from stream_leip.arrays import Matrix, Rows, Vector
from stream_leip.estimators.counting import label_shares, mean_row
from stream_leip.estimators.estimate import Estimate, Scope, check_scope, weigh
from stream_leip.profile import SourceProfile

# The published settings of RLLS.
_ALPHA = 0.01
_DELTA = 0.05


@dataclass(frozen=True)
class BBSE:
    """Solve confusion · weights = mean prediction (Lipton 2018); negative weights become zero.

    Parameters
    ----------
    soft
        Whether predictions are posteriors or labels.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import BBSE, fit_profile
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 3.0 * np.eye(2)[labels] + rng.normal(size=(len(labels), 2))
    >>> known = rng.integers(2, size=2000)
    >>> profile = fit_profile(draw(known), known)
    >>> shifted = rng.choice(2, size=5000, p=[0.8, 0.2])
    >>> BBSE().estimate(profile.rows(draw(shifted)), profile).prior.round(2)
    array([0.8, 0.2])
    """

    soft: bool = True

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
        confusion, mean = _equation(scope, profile, self.soft)
        solved, _, rank, _ = np.linalg.lstsq(confusion, mean, rcond=1e-10)
        notes: tuple[str, ...] = ()
        if rank < len(mean):
            notes = (
                f"the confusion has rank {rank} of {len(mean)}: "
                "the weights of least size are taken among all that fit",
            )
        return _from_weights(np.maximum(solved, 0.0), profile, len(scope.rows), notes)


@dataclass(frozen=True)
class RLLS:
    """BBSE kept near the source (Azizzadenesheli 2019).

    θ minimises ‖Cθ - (μ_target - μ_source)‖ + ρ‖θ‖ where weights 1 + θ are nonnegative; ρ falls
    with the number of validation rows.

    Parameters
    ----------
    soft
        Whether predictions are posteriors or labels.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import RLLS, fit_profile
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 3.0 * np.eye(2)[labels] + rng.normal(size=(len(labels), 2))
    >>> known = rng.integers(2, size=2000)
    >>> profile = fit_profile(draw(known), known)
    >>> shifted = rng.choice(2, size=5000, p=[0.8, 0.2])
    >>> RLLS().estimate(profile.rows(draw(shifted)), profile).prior.round(2)
    array([0.8, 0.2])
    """

    soft: bool = True

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
        confusion, mean = _equation(scope, profile, self.soft)
        size = regularisation(len(mean), profile.validation.n)
        found = regularised_weights(confusion, mean, size)
        return _from_weights(found, profile, len(scope.rows), ())


def _equation(scope: Scope, profile: SourceProfile, soft: bool) -> tuple[Matrix, Vector]:
    """The joint confusion, and the mean prediction that weights must give under it."""
    if soft:
        return profile.validation.soft, mean_row(scope)
    return profile.validation.hard, label_shares(scope)


def regularisation(m: int, validation_rows: int) -> float:
    """ρ: the published bound on the confusion's error, times the published α."""
    spread = 2.0 * np.log(2.0 * m / _DELTA)
    bound = spread / (3.0 * validation_rows) + np.sqrt(spread / validation_rows)
    return float(_ALPHA * 3.0 * bound)


def regularised_weights(confusion: Matrix, mean: Vector, size: float) -> Vector:
    """The weights w ≥ 0 of least ‖Cw - mean‖ + size·‖w - 1‖.

    For the right λ they are those of least ‖Cw - mean‖² + λ‖w - 1‖², a nonnegative quadratic
    program; λ is the root of λ‖w - 1‖ = size·‖Cw - mean‖.
    """
    m = len(mean)
    square = confusion.T @ confusion
    towards = confusion.T @ mean
    free = np.ones(m, np.bool_)

    def solve(log_ridge: float) -> Vector:
        ridge = np.exp(log_ridge)
        model = square + ridge * np.eye(m)
        found: Vector = nonnegative(model, towards + ridge, free, 20 * m + 20)
        return found

    def excess(log_ridge: float) -> float:
        w = solve(log_ridge)
        pull = np.exp(log_ridge) * np.linalg.norm(w - 1.0)
        return float(pull - size * np.linalg.norm(confusion @ w - mean))

    scale = float(np.trace(square)) / m
    low, high = np.log(scale * 1e-12), np.log(scale * 1e6)
    if excess(low) >= 0.0:
        return solve(low)
    if excess(high) <= 0.0:
        return np.ones(m)
    from scipy.optimize import brentq  # noqa: PLC0415  (see calibration)

    return solve(float(brentq(excess, low, high, xtol=1e-10)))


def _from_weights(
    found: Vector, profile: SourceProfile, n: int, notes: tuple[str, ...]
) -> Estimate:
    mass = found * profile.hard_prior
    total = mass.sum()
    if total > 0.0:
        prior = mass / total
    else:
        prior = profile.hard_prior.copy()
        notes += ("no class keeps a positive weight: the source prior is given",)
    return Estimate(prior, weigh(prior, profile.hard_prior), n, {"notes": notes})
