"""What "no change" means to the alarm: a mix, and what is left open of its mean row."""

from stream_leip.arrays import Matrix, Vector
from stream_leip.estimators import EM
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.interval import PSEUDO_COUNT, mean_covariance
from stream_leip.profile import SourceProfile
from stream_leip.tracked import Recent


def at_home(profile: SourceProfile) -> tuple[Vector, Matrix]:
    """The source's mix, and the covariance of the validation rows' mean."""
    covariance: Matrix = profile.evidence.covariance / profile.validation.n
    return profile.soft_prior, covariance


def since_a_change(rows: Recent, profile: SourceProfile) -> tuple[Vector, Matrix]:
    """The mix of these rows; half a count of each class, as a null without it would forbid it."""
    found = EM().estimate_ranked(rows, profile, NO_WEIGHTS).prior
    n = len(rows)
    prior = (n * found + PSEUDO_COUNT) / (n + PSEUDO_COUNT * len(found))
    return prior, mean_covariance(rows, profile, prior)
