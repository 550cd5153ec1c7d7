"""Auto: the estimator that did best on replayed shifts of the validation rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stream_leip.arrays import Rows
from stream_leip.errors import InputError
from stream_leip.estimators.em import EM
from stream_leip.estimators.estimate import Estimate, Estimator, check_scope
from stream_leip.estimators.leip import LEIP
from stream_leip.profile import SourceProfile

CANDIDATES: dict[str, Estimator] = {"LEIP": LEIP(), "EM": EM()}


@dataclass(frozen=True)
class Auto:
    """LEIP or EM, whichever had less error at the nearest window size when the profile was fitted.

    LEIP counts labels and wins where the classifier is accurate and the validation set small; EM
    wins where the classifier is weak.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import Auto, fit_profile
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 4.0 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3))
    >>> known = rng.integers(3, size=900)
    >>> profile = fit_profile(draw(known), known)
    >>> shifted = rng.choice(3, size=5000, p=[0.7, 0.2, 0.1])
    >>> estimate = Auto().estimate(profile.rows(draw(shifted)), profile)
    >>> estimate.details["estimator"], estimate.prior.round(2)
    ('EM', array([0.7, 0.2, 0.1]))
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
        given = scope.weights if scope.weighted else None
        name, reason = choose(profile, effective_size(len(scope.rows), given))
        found = CANDIDATES[name].estimate(rows, profile, weights=weights, start=start)
        details = {**found.details, "estimator": name, "reason": reason}
        return Estimate(found.prior, found.weights, found.n, details)


def effective_size(n: int, weights: ArrayLike | None) -> float:
    """How many rows of equal weight tell as much as these (Kish)."""
    if weights is None:
        return float(n)
    w = np.asarray(weights, np.float64)
    return float(w.sum() ** 2 / max((w**2).sum(), np.finfo(np.float64).tiny))


def choose(profile: SourceProfile, n: float) -> tuple[str, str]:
    """The name of the estimator for `n` rows, and why it is that one."""
    name = profile.replay.best(n)
    if name not in CANDIDATES:
        raise InputError(f"profile: its replay names {name!r}, which auto does not know; fit again")
    place = profile.replay.nearest(n)
    errors = ", ".join(f"{who} {by[place]:.4f}" for who, by in profile.replay.errors.items())
    size = profile.replay.sizes[place]
    return name, f"least error on replayed shifts of {size} rows ({errors})"
