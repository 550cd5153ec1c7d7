"""EM: the prior of greatest likelihood."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_leip._kernels import likelihood as kernel
from stream_leip.arrays import Rows, Vector, is_number
from stream_leip.errors import InputError
from stream_leip.estimators.estimate import ALL_CLASSES, Estimate, RowSet, check_scope, weigh
from stream_leip.estimators.leip import check_source_prior
from stream_leip.profile import SourcePrior, SourceProfile

MOST_PASSES = 5000


@dataclass(frozen=True)
class EM:
    """Maximise the likelihood of the rows (Saerens 2002), to a certificate.

    The likelihood is concave, and the largest entry of its gradient bounds how far below the
    maximum a prior is: the search stops when that gap is under `tolerance`. It takes EM steps with
    extrapolation while they are quick, then Newton steps on the simplex.

    Parameters
    ----------
    prior
        Source prior: "soft", the mean validation posterior, or "hard", the label counts.
    tolerance
        Largest gap in mean log-likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import EM, fit_profile
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 4.0 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3))
    >>> known = rng.integers(3, size=900)
    >>> profile = fit_profile(draw(known), known)
    >>> shifted = rng.choice(3, size=5000, p=[0.7, 0.2, 0.1])
    >>> estimate = EM().estimate(profile.rows(draw(shifted)), profile)
    >>> estimate.prior.round(2)
    array([0.7, 0.2, 0.1])
    >>> estimate.details["gap"] < 1e-8
    True
    """

    prior: SourcePrior = "soft"
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        check_source_prior(self.prior)
        if not (is_number(self.tolerance) and 1e-12 <= self.tolerance <= 1.0):
            raise InputError(
                f"tolerance: {self.tolerance!r}; use a number from 1e-12 (below is rounding) to 1"
            )

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
        return self._search(scope.rows, ALL_CLASSES, profile, scope.weights, scope.start)

    def estimate_ranked(
        self,
        given: RowSet,
        profile: SourceProfile,
        weights: Vector,
        start: Vector | None = None,
    ) -> Estimate:
        """Estimate from rows that were checked before, as a pane's are; empty for no weights."""
        return self._search(given.rows, given.classes, profile, weights, start)

    def _search(
        self,
        rows: Rows,
        classes: NDArray[np.uint16],
        profile: SourceProfile,
        weights: Vector,
        start: Vector | None,
    ) -> Estimate:
        source = profile.prior(self.prior)
        # A class that the start leaves out could never come back by EM steps alone.
        begin = source if start is None else start + 1e-5 * source
        prior, gap, passes = kernel.maximise(
            rows, classes, profile.soft_prior, weights, source, begin / begin.sum(),
            self.tolerance, MOST_PASSES,
        )  # fmt: skip
        details = {
            "gap": float(gap),
            "passes": int(passes),
            "certified": bool(gap <= self.tolerance),
        }
        return Estimate(np.asarray(prior), weigh(prior, source), len(rows), details)
