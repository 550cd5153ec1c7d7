"""How sure a window's estimate is: an interval for each class, and the covariance of all.

Two errors add up. The window's own: the ends that its likelihood allows, which are right for rare
classes too, where a normal law is not. And the validation set's: the sampling error of everything
that was fitted to it, carried over to the estimate, and the misfit of the calibrator at this prior,
seen on the validation rows that the profile keeps. Squared, the two add up on either side.
"""

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stream_leip._kernels import interval as kernel
from stream_leip._kernels.likelihood import curvature, maximise
from stream_leip.arrays import Matrix, Rows, Vector, is_number
from stream_leip.errors import InputError
from stream_leip.estimators.em import MOST_PASSES
from stream_leip.estimators.estimate import ALL_CLASSES, NO_WEIGHTS, RowSet
from stream_leip.profile import SourcePrior, SourceProfile
from stream_leip.validation import Evidence

# Above so many classes the ends are Wilson's, from the covariance alone: wider for rare classes,
# and the cost does not grow with rows × classes².
MANY = 100
PSEUDO_COUNT = 0.5
SUPPORT = 0.1
SPREAD_ROWS = 2000
# How near the regularised prior is found, in mean log-likelihood; widths hardly depend on it.
_GAP = 1e-9
_ROUGH_GAP = 1e-5


def interval(
    ranked: RowSet,
    profile: SourceProfile,
    weights: Vector,
    em_prior: Vector,
    level: float,
    *points: Vector,
    prior: SourcePrior = "soft",
) -> tuple[Vector, Vector]:
    """Lower and upper ends of each class's share, each right with probability `level`.

    Parameters
    ----------
    ranked
        The rows in scope, as a pane has them.
    profile
        The source.
    weights
        One for each row, or empty; they count for as many rows as their effective size (Kish).
    em_prior
        The prior of greatest likelihood for these rows.
    level
        Between 0 and 1.
    points
        Other estimates that the intervals are stretched to contain.
    prior
        The source prior that the estimates used.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import EM, fit_profile
    >>> from stream_leip.interval import interval
    >>> from stream_leip.pane import Pane
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 4.0 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3))
    >>> known = rng.integers(3, size=900)
    >>> profile = fit_profile(draw(known), known)
    >>> pane = Pane.seal(profile.rows(draw(rng.choice(3, size=1000, p=[0.7, 0.29, 0.01]))))
    >>> found = EM().estimate(pane.rows, profile)
    >>> low, high = interval(pane, profile, np.empty(0), found.prior, 0.95)
    >>> low.round(2), high.round(2)
    (array([0.67, 0.26, 0.  ]), array([0.73, 0.32, 0.02]))
    """
    z2 = squared_quantile(level)
    m = len(profile.classes)
    if len(ranked.rows) == 0:
        return np.zeros(m), np.ones(m)
    scaled, n = _effective(weights, len(ranked.rows))
    scope = _Scope.of(ranked, profile, scaled, n, prior)
    at = _At.of(scope, scope.regularised(em_prior))
    extra = z2 * at.validation_variance
    if m > MANY:
        low, high = _wilson(em_prior, at, z2, extra)
    else:
        low, high = _likelihood(scope, em_prior, at, z2, extra)
    held = np.stack([em_prior, *points])
    return (
        np.clip(np.minimum(low, held.min(axis=0)), 0.0, 1.0),
        np.clip(np.maximum(high, held.max(axis=0)), 0.0, 1.0),
    )


def mean_covariance(ranked: RowSet, profile: SourceProfile, prior: Vector) -> Matrix:
    """Covariance of the mean of rows that are adapted to a prior, m × m.

    Half a sure row of each class is mixed in, so that a class none of them was of is left open.
    """
    n = len(ranked.rows)
    _require_rows(n)
    mean, gram = _moments(_Scope.of(ranked, profile, NO_WEIGHTS, n, "soft"), prior)
    m = len(prior)
    unseen = PSEUDO_COUNT / n**2 * (np.eye(m) - 1.0 / m)
    found: Matrix = np.outer(prior, prior) * (gram - np.outer(mean, mean)) / n + unseen
    return found


def validation_variance(
    ranked: RowSet, profile: SourceProfile, estimate: Vector, *, prior: SourcePrior = "soft"
) -> Vector:
    """The part of each class's variance that the validation set causes, its misfit included.

    At most `SPREAD_ROWS` rows are looked at, evenly spread over those in scope; of a class with a
    handful of rows among these the answer is rough.
    """
    n = len(ranked.rows)
    _require_rows(n)
    scope = _Scope.of(ranked, profile, NO_WEIGHTS, n, prior, -(-n // SPREAD_ROWS))
    return _At.of(scope, scope.shrunk(estimate)).validation_variance


class Experts(Protocol):
    """What each class's experts say of its share, classes × experts."""

    @property
    def prior(self) -> Vector:
        """What all of them together say."""

    @property
    def weights(self) -> Matrix:
        """How much each counts."""

    @property
    def means(self) -> Matrix:
        """The share that each says."""

    @property
    def events(self) -> Matrix:
        """How many events that is from."""


def mixture_interval(experts: Experts, extra: Vector, level: float) -> tuple[Vector, Vector]:
    """Ends for the mix now, while it moves: each class's experts as a mixture of normals.

    It is centred at the prior; `extra` is the variance that the validation set causes.
    """
    low, high = kernel.mixture_ends(
        experts.weights, experts.means, experts.events, experts.prior, extra, 0.5 - 0.5 * level
    )
    return np.minimum(low, experts.prior), np.maximum(high, experts.prior)


def squared_quantile(level: float) -> float:
    """The square of the normal quantile that leaves 1 - `level` on both sides together."""
    if not (is_number(level) and 0.0 < level < 1.0):
        raise InputError(f"level: {level!r}; use a number between 0 and 1, such as 0.95")
    return NormalDist().inv_cdf(0.5 + 0.5 * level) ** 2


def _require_rows(n: int) -> None:
    if n == 0:
        raise InputError("rows: there are none; the error of an estimate needs at least one row")


def _effective(weights: Vector, n: int) -> tuple[Vector, float]:
    """Weights that sum to the size of as many equal rows, and that size."""
    if not len(weights):
        return NO_WEIGHTS, float(n)
    total = float(weights.sum())
    size = total**2 / float((weights**2).sum())
    return weights * (size / total), size


@dataclass(frozen=True, eq=False)
class _Scope:
    """Rows of all classes (few classes) or as they are (many), with what they are judged by."""

    rows: Rows
    classes: NDArray[np.uint16]
    weights: Vector
    n: float
    source: Vector
    profile: SourceProfile
    evidence: Evidence
    fitted: Matrix

    @classmethod
    def of(
        cls,
        ranked: RowSet,
        profile: SourceProfile,
        weights: Vector,
        n: float,
        prior: SourcePrior,
        step: int = 1,
    ) -> "_Scope":
        m = len(profile.classes)
        rows, classes = ranked.rows[::step], ranked.classes
        if m <= MANY or not classes.shape[1]:
            full = np.empty((len(rows), m), np.float32)
            kernel.expand(ranked.rows, ranked.classes, profile.soft_prior, step, full)
            rows, classes = full, ALL_CLASSES
        else:
            rows, classes = np.ascontiguousarray(rows), np.ascontiguousarray(classes[::step])
        evidence = profile.evidence_of(ranked.classes.shape[1])
        fitted = evidence.soft if prior == "soft" else evidence.hard
        return cls(rows, classes, weights, n, profile.prior(prior), profile, evidence, fitted)

    def shrunk(self, estimate: Vector) -> Vector:
        """Half a count of each class mixed in."""
        m = len(estimate)
        found: Vector = (self.n * estimate + PSEUDO_COUNT) / (self.n + PSEUDO_COUNT * m)
        return found

    def regularised(self, em_prior: Vector) -> Vector:
        """The prior of greatest likelihood for these rows and half a sure row of each class."""
        m = len(em_prior)
        weights = self.weights if len(self.weights) else np.ones(len(self.rows))
        sure = np.zeros((m, self.rows.shape[1]), np.float32)
        classes = self.classes
        if classes.shape[1]:
            sure[:, 0] = 1.0
            ahead = np.arange(m)[:, None] + np.arange(classes.shape[1])
            classes = np.concatenate([classes, (ahead % m).astype(np.uint16)])
        else:
            np.fill_diagonal(sure, 1.0)
        found, _, _ = maximise(
            np.concatenate([self.rows, sure]), classes, self.profile.soft_prior,
            np.concatenate([weights, np.full(m, PSEUDO_COUNT)]), self.source,
            self.shrunk(em_prior), _GAP if m <= MANY else _ROUGH_GAP, MOST_PASSES,
        )  # fmt: skip
        # A search that stopped short must not leave a class far below its half count.
        least = PSEUDO_COUNT / (self.n + PSEUDO_COUNT * m)
        found = np.maximum(found, 0.5 * least)
        return np.asarray(found / found.sum())


@dataclass(frozen=True, eq=False)
class _At:
    """What the rows say at a prior that has something of every class.

    Parameters
    ----------
    prior
        That prior.
    target
        Covariance of the estimate, times `counted`, from the window's own rows.
    counted
        Rows and pseudo-rows.
    pull
        How the estimate moves with each parameter that was fitted.
    fitted
        The covariance of those.
    misfit
        How far off the calibrator leaves the estimate here, by the kept validation rows.
    """

    prior: Vector
    target: Matrix
    counted: float
    pull: Matrix
    fitted: Matrix
    misfit: Vector

    @classmethod
    def of(cls, scope: _Scope, prior: Vector) -> "_At":
        m = len(prior)
        evidence = scope.evidence
        mean, gram = _moments(scope, prior)
        counted = scope.n + PSEUDO_COUNT * m
        pseudo = PSEUDO_COUNT / prior**2
        regular = scope.n * gram
        regular[np.diag_indices(m)] += pseudo
        inverse = _invert(regular / counted)
        by_scale = _by_scale(scope, prior, len(scope.fitted) - m)
        seen = kernel.class_means(evidence.rows, evidence.labels, prior, scope.source)
        target, pull, misfit = kernel.pulls(
            inverse, prior, mean, pseudo, scope.n, counted, by_scale, seen
        )
        return cls(prior, target, counted, pull, scope.fitted, misfit)

    @cached_property
    def validation_variance(self) -> Vector:
        """Of each class: by the fit, and the misfit squared."""
        if len(self.prior) <= MANY:
            return np.asarray(kernel.variances(self.pull, self.fitted, self.misfit))
        pull = self.pull.astype(np.float32)
        rough = np.einsum("ij,ij->i", pull @ self.fitted.astype(np.float32), pull)
        by_fit = rough.astype(np.float64)
        return np.asarray(np.maximum(by_fit, 0.0) + self.misfit**2)

    @property
    def own_variance(self) -> Vector:
        """Of each class, by the window's own rows."""
        return np.maximum(np.diag(self.target), 0.0) / self.counted


def _invert(matrix: Matrix) -> Matrix:
    """The inverse of a positive definite matrix."""
    m = len(matrix)
    if m <= MANY:
        return np.asarray(kernel.invert(matrix))
    from scipy.linalg import lapack  # noqa: PLC0415  (a third of the time; the kernels load it too)

    lower, failed = lapack.dpotrf(matrix, lower=1)
    if failed:
        return np.asarray(np.linalg.inv(matrix))
    half, _ = lapack.dpotri(lower, lower=1)
    found: Matrix = np.tril(half) + np.tril(half, -1).T
    return found


def _moments(scope: _Scope, prior: Vector) -> tuple[Vector, Matrix]:
    """Means of g and of g·g' over the rows, g = x / (x·prior)."""
    if scope.classes.shape[1]:
        gram = curvature(
            scope.rows, scope.classes, scope.profile.soft_prior, scope.weights, prior,
            scope.source, 1,
        )  # fmt: skip
        return gram @ prior, gram
    total = float(scope.weights.sum()) if len(scope.weights) else float(len(scope.rows))
    mean, gram = kernel.information(scope.rows, scope.weights, prior, scope.source)
    return mean / total, gram / total


def _by_scale(scope: _Scope, prior: Vector, scales: int) -> Matrix:
    """How the mean of g moves with the calibrator's scales."""
    m = len(prior)
    if not scales:
        return np.empty((m, 0))
    rows = scope.rows
    if scope.classes.shape[1]:
        rows = np.empty((len(scope.rows), m), np.float32)
        kernel.expand(scope.rows, scope.classes, scope.profile.soft_prior, 1, rows)
    total = float(scope.weights.sum()) if len(scope.weights) else float(len(rows))
    if scales == 1:
        moved = kernel.common_scale(rows, scope.weights, prior, scope.source)[:, None]
    else:
        moved = kernel.own_scales(
            rows, scope.weights, prior, scope.source, scope.profile.calibrator.bias,
            scope.evidence.normaliser,
        )  # fmt: skip
    return np.asarray(moved) / total


def _likelihood(
    scope: _Scope, em_prior: Vector, at: _At, z2: float, extra: Vector
) -> tuple[Vector, Vector]:
    """Ends by likelihood ratio along each class's least favourable direction."""
    support = scope.n * em_prior > SUPPORT
    support[np.argmax(em_prior)] = True
    prior = np.where(support, em_prior, 0.0)
    prior /= prior.sum()
    _, gram = _moments(scope, prior)
    up, down = kernel.likelihood_ends(
        scope.rows, scope.weights, scope.source, prior, _directions(gram, prior, support), support,
        z2,
    )  # fmt: skip
    high = np.minimum(1.0, prior + np.sqrt(up**2 + extra))
    wald = np.sqrt(z2 * at.own_variance + extra)
    low = np.maximum(0.0, prior - np.maximum(np.sqrt(down**2 + extra), wald))
    if support.sum() == 1:
        only = int(np.argmax(support))
        low[only] = min(low[only], 1.0 - np.delete(high, only).max())
    return low, high


def _directions(gram: Matrix, prior: Vector, support: NDArray[np.bool_]) -> Matrix:
    """For each class, how the others give way so that the likelihood falls least."""
    m = len(prior)
    inside = np.flatnonzero(support)
    inverse = np.linalg.inv(gram[np.ix_(inside, inside)] + 1e-9 * np.eye(len(inside)))
    shares = prior[inside]
    found = np.zeros((m, m))
    steep = np.diag(inverse) - shares**2
    for place, c in enumerate(inside):
        if len(inside) > 1 and steep[place] > 1e-12:
            found[c, inside] = (inverse[:, place] - shares * shares[place]) / steep[place]
        else:
            found[c, c] = 1.0
    outside = np.flatnonzero(~support)
    given = inverse @ gram[np.ix_(inside, outside)]
    found[np.ix_(outside, inside)] = (-given - np.outer(shares, 1.0 - given.sum(axis=0))).T
    found[outside, outside] = 1.0
    return found


def _wilson(em_prior: Vector, at: _At, z2: float, extra: Vector) -> tuple[Vector, Vector]:
    """Wilson's ends for as many rows as would give the variance found."""
    rows = at.prior * (1.0 - at.prior) / np.maximum(at.own_variance, 1e-300)
    middle = (em_prior + 0.5 * z2 / rows) / (1.0 + z2 / rows)
    about = em_prior * (1.0 - em_prior) / rows + 0.25 * z2 / rows**2
    half = np.sqrt(z2 * about) / (1.0 + z2 / rows)
    up, down = middle + half - em_prior, em_prior - (middle - half)
    wald = np.sqrt(z2 * at.own_variance + extra)
    low = em_prior - np.maximum(np.sqrt(down**2 + extra), wald)
    return low, em_prior + np.sqrt(up**2 + extra)
