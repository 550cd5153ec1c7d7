"""Is it only the class mix that changed? A test of over-identification (Hansen's J).

When only the mix changes, the mean of any feature of the rows is a mixture of its validation means
by class, with the target prior as weights. There are more features than classes, so that a mixture
which fits them all need not exist: how badly the best one fits is the test. The feature that makes
it see much is atypicality, the distance of a row's logarithms from those usual for its label.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_leip._kernels.assumption import feature_sums, misfit
from stream_leip.arrays import Matrix, Vector
from stream_leip.errors import InputError
from stream_leip.estimators.estimate import RowSet
from stream_leip.evidence import FEWEST
from stream_leip.profile import SourceProfile
from stream_leip.validation import ClassFeatures, FeatureView

THRESHOLD = 0.02
SPENT = 0.05
_RIDGE = 4.0
_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Moments:
    """Rows as the check sees them; those of two panes add up to those of both.

    Parameters
    ----------
    n
        How many rows.
    total
        The sum of each feature.
    products
        The sum of the products of each two.
    top_k
        How many entries of a row were known; 0 for all.
    """

    n: int
    total: Vector
    products: Matrix
    top_k: int = 0

    def __add__(self, other: "Moments") -> "Moments":
        if self.top_k != other.top_k:
            raise InputError(
                f"moments: rows of {self.top_k} entries and of {other.top_k} do not add up; "
                "use one top_k"
            )
        return Moments(
            self.n + other.n,
            self.total + other.total,
            self.products + other.products,
            self.top_k,
        )


@dataclass(frozen=True)
class Check:
    """Whether a change of the class mix explains the rows.

    Parameters
    ----------
    p
        How probable so bad a fit, or a worse one, is when only the mix changed.
    flagged
        Whether that is below the threshold.
    validation_share
        The share of the test's uncertainty that the validation set's size causes.
    message
        A sentence for a person.
    """

    p: float
    flagged: bool
    validation_share: float
    message: str

    def to_dict(self) -> dict[str, object]:
        """The fields, as JSON has them."""
        return {
            "p": self.p,
            "flagged": self.flagged,
            "validation_share": self.validation_share,
            "message": self.message,
        }


def moments(ranked: RowSet, profile: SourceProfile) -> Moments:
    """Sum up the check's features of some rows."""
    top_k = ranked.classes.shape[1]
    features = profile.evidence_of(top_k).features
    spread = profile.soft_prior
    total, products = feature_sums(
        ranked.rows, ranked.classes, spread, features.groups, features.group(spread),
        features.centres, features.factor, features.offset,
    )  # fmt: skip
    return Moments(len(ranked.rows), total, products, top_k)


def spend(window: int) -> float:
    """The threshold for a stream's window 1, 2, …: false flags over all of them are 5 % at most."""
    return SPENT / (window * (window + 1))


def check(
    seen: Moments, profile: SourceProfile, em_prior: Vector, threshold: float = THRESHOLD
) -> Check:
    """Test whether a change of the class mix explains the rows.

    Parameters
    ----------
    seen
        Of the rows in scope.
    profile
        The source.
    em_prior
        The estimate to begin with; the test finds its own mixture near it.
    threshold
        Flag when the probability is below.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import EM, fit_profile
    >>> from stream_leip.assumption import check, moments
    >>> from stream_leip.pane import Pane
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 2.0 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3))
    >>> known = rng.integers(3, size=2000)
    >>> profile = fit_profile(draw(known), known)
    >>> def judge(scores):
    ...     pane = Pane.seal(profile.rows(scores))
    ...     prior = EM().estimate(pane.rows, profile).prior
    ...     return check(moments(pane, profile), profile, prior).flagged
    >>> shifted = draw(rng.choice(3, size=2000, p=[0.7, 0.2, 0.1]))
    >>> judge(shifted), judge(0.5 * shifted)
    (False, True)
    """
    features = profile.evidence_of(seen.top_k).features
    if seen.n < 2:
        return Check(1.0, False, 0.0, f"{seen.n} rows are too few to check what changed")
    start, mix = features.group(em_prior), features.mix(em_prior)
    by_slot, _ = _test(seen, features.by_slot, start, *mix)
    summed, share = _test(seen, features.summed, start, *mix)
    p = min(1.0, 2.0 * min(by_slot, summed))
    flagged = p < threshold
    return Check(p, flagged, share, _say(p, flagged, share, weak_classes(features), profile))


def _test(
    seen: Moments, view: FeatureView, start: Vector, mix: Matrix, counts: Vector
) -> tuple[float, float]:
    """The probability of so bad a fit, and the validation set's share of the uncertainty."""
    squares, freedom, noise, share = misfit(
        seen.total, seen.products, float(seen.n), view.combine, view.means, mix, view.covariances,
        view.variances, start, counts, _RIDGE, _ROUNDS,
    )  # fmt: skip
    size = max(1.0 / max(noise, 1e-300), freedom + 3.0)
    # Importing it takes longer than all of stream_leip.
    from scipy.special import fdtrc  # noqa: PLC0415

    spare = size - freedom + 1.0
    statistic = squares * spare / (size * freedom)
    return float(fdtrc(freedom, spare, statistic)), float(share)


def weak_classes(features: ClassFeatures) -> NDArray[np.int64]:
    """The classes of so few validation rows that the check sees little of them."""
    return np.flatnonzero(features.group_counts[features.groups] < FEWEST)


def _say(
    p: float, flagged: bool, share: float, few: NDArray[np.int64], profile: SourceProfile
) -> str:
    sure = f"p = {p:.2g}" if p >= 1e-4 else "p < 0.0001"
    verdict = (
        "the inputs changed in a way a new class mix does not explain"
        if flagged
        else "nothing says that more than the class mix changed"
    )
    text = f"{verdict} ({sure}; the validation set causes {share:.0%} of the uncertainty)"
    weak = [profile.classes[c] for c in few]
    if weak:
        text += (
            f"; weak for {', '.join(weak[:3])}{', …' if len(weak) > 3 else ''}: "
            f"fewer than {FEWEST} validation rows"
        )
    return text
