"""What "no change" means to the alarm: a mix, and what is left open of its mean row."""

import numpy as np

from stream_leip.arrays import Matrix, Vector
from stream_leip.estimators import EM
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.interval import PSEUDO_COUNT, mean_covariance
from stream_leip.profile import SourceProfile
from stream_leip.tracked import Recent


def at_home(profile: SourceProfile) -> tuple[Vector, Matrix]:
    """The source's mix, as far as the validation rows tell, half a sure row of each class added."""
    n = profile.validation.n
    covariance: Matrix = profile.evidence.covariance / n
    return profile.soft_prior, covariance + np.diag(np.full(len(covariance), PSEUDO_COUNT / n**2))


def since_a_change(rows: Recent, profile: SourceProfile) -> tuple[Vector, Matrix]:
    """The mix of these rows; half a count of each class, as a null without it would forbid it."""
    found = EM().estimate_ranked(rows, profile, NO_WEIGHTS).prior
    n = len(rows)
    prior = (n * found + PSEUDO_COUNT) / (n + PSEUDO_COUNT * len(found))
    return prior, mean_covariance(rows, profile, prior)
