"""LEIP: label shift estimation with incremental prior update."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_leip._kernels import gate
from stream_leip._kernels import labels as kernel
from stream_leip._kernels.labels import HIGH, INDEX, ONE
from stream_leip.arrays import Rows, Vector, is_number
from stream_leip.errors import InputError
from stream_leip.estimators.estimate import (
    ALL_CLASSES,
    Arrived,
    Estimate,
    Ranked,
    check_scope,
    weigh,
)
from stream_leip.estimators.threshold import NAMED, Fixed, Share, Threshold, confident_share
from stream_leip.profile import SourcePrior, SourceProfile
from stream_leip.rows import check_distributions

Keys = NDArray[np.uint64]
_NO_KEYS: Keys = np.empty(0, np.uint64)


@dataclass(frozen=True)
class LEIP:
    """Count confident labels, then label the rest in order of confidence as the counts grow.

    Rows at or above a threshold are the confident set. The others, the low-confidence buffer, are
    labelled most confident first, each under the prior that the labels so far give. A last pass
    labels all rows under the final prior, and the estimate is the distribution of these labels
    (Zhang, Batista, Kanhere, SDM 2025).

    Parameters
    ----------
    threshold
        "min-recall" puts a share of rows equal to the least validation recall into the confident
        set, "mean-recall" the mean, "min-precision" the least precision; `Share(0.8)` that share;
        `Fixed(0.9)` the rows at or above that probability. Under 0.05 the mean recall is used
        and `details` say so.
    prior
        Source prior: "soft", the mean validation posterior, or "hard", the label counts.
    smoothing
        What each class's count starts from.

    Notes
    -----
    With row weights, counts are sums of weights, and the threshold a weighted quantile: a row
    stands at the middle of its weight along the rows in ascending order, and quantiles are linear
    between the first and the last. With equal weights it is `numpy.quantile`.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import LEIP, fit_profile
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     return 4.0 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3))
    >>> known = rng.integers(3, size=900)
    >>> profile = fit_profile(draw(known), known)
    >>> shifted = rng.choice(3, size=5000, p=[0.7, 0.2, 0.1])
    >>> estimate = LEIP().estimate(profile.rows(draw(shifted)), profile)
    >>> estimate.prior.round(2)
    array([0.7, 0.2, 0.1])
    >>> estimate.details["buffered"]
    18
    """

    threshold: Threshold = "min-recall"
    prior: SourcePrior = "soft"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.threshold, Share | Fixed) and self.threshold not in NAMED:
            raise InputError(
                f"threshold: {self.threshold!r} is unknown; use one of {', '.join(NAMED)}, "
                "Share(0.8) or Fixed(0.9)"
            )
        check_source_prior(self.prior)
        if not (is_number(self.smoothing) and 0.0 <= self.smoothing < np.inf):
            raise InputError(f"smoothing: {self.smoothing!r}; use a number of at least zero")

    def estimate(
        self,
        rows: Rows,
        profile: SourceProfile,
        *,
        weights: ArrayLike | None = None,
        start: ArrayLike | None = None,
    ) -> Estimate:
        """Estimate the prior; see `Estimator.estimate`. LEIP does not search: no use of `start`."""
        scope = check_scope(rows, profile, weights, start, distributions=False)
        return self._label(scope.rows, profile, scope.weights)

    def estimate_arrived(self, arrived: Arrived, profile: SourceProfile) -> Estimate:
        """Estimate from rows that were checked, labelled and keyed as they came."""
        source = profile.prior(self.prior)
        fixed, share = 0.0, -1.0
        notes: tuple[str, ...] = ()
        if isinstance(self.threshold, Fixed):
            fixed = self.threshold.threshold
        else:
            share, notes = self._share(profile)
        final, threshold, confident, split, kept = kernel.label_arrived(
            arrived.rows, arrived.classes, profile.soft_prior, arrived.keys, arrived.labels, source,
            share, fixed, float(self.smoothing),
        )  # fmt: skip
        n = len(arrived.rows)
        return _conclude(final, source, threshold, confident, split, n, kept, notes)

    def _label(self, rows: Rows, profile: SourceProfile, weights: Vector) -> Estimate:
        source = profile.prior(self.prior)
        m = len(profile.classes)
        keys = np.empty(len(rows), np.uint64)
        labels = np.empty(len(rows), np.uint16)
        whole = kernel.rank(rows, rows.view(np.int32), keys, labels)
        if not (whole and gate.none_negative(rows.ravel())):
            check_distributions(rows)
        counts = np.zeros(m)
        kernel.count(labels, counts)

        threshold, behind, notes = self._threshold(keys, weights, profile)
        confident, final = (np.zeros(m), np.zeros(m)) if len(weights) else (counts.copy(), counts)
        split = kernel.confident(labels, weights, keys, behind, threshold, confident)
        counts = confident + self.smoothing
        kept = kernel.relabel(
            rows, ALL_CLASSES, profile.soft_prior, labels, weights, keys, _NO_KEYS, False, split,
            source, counts, final,
        )  # fmt: skip
        return _conclude(final, source, threshold, confident, split, len(rows), kept, notes)

    def estimate_ranked(self, ranked: Ranked, profile: SourceProfile, weights: Vector) -> Estimate:
        """Estimate from rows that are in order already, as a pane's are; empty for no weights."""
        source = profile.prior(self.prior)
        m = len(profile.classes)
        notes: tuple[str, ...] = ()
        if isinstance(self.threshold, Fixed):
            threshold = self.threshold.threshold
        else:
            share, notes = self._share(profile)
            if len(weights):
                threshold = _weighted_quantile(ranked.keys, weights, 1.0 - share)
            else:
                place = (len(ranked.rows) - 1) * (1.0 - share)
                threshold, _ = kernel.quantile(ranked.keys, 0, place)
        if len(weights):
            split = ranked.split(threshold)
            found = np.bincount(ranked.labels[:split], weights[:split], minlength=m)
            final = np.zeros(m)
        else:
            found, split = ranked.confident(threshold)
            final = ranked.confident(0.0)[0].astype(np.float64)
        confident = found.astype(np.float64)
        counts = confident + self.smoothing
        kept = kernel.relabel(
            ranked.rows, ranked.classes, profile.soft_prior, ranked.labels, weights, ranked.keys,
            ranked.keys, True, split, source, counts, final,
        )  # fmt: skip
        return _conclude(final, source, threshold, confident, split, len(ranked.rows), kept, notes)

    def _threshold(
        self, keys: Keys, weights: Vector, profile: SourceProfile
    ) -> tuple[float, int, tuple[str, ...]]:
        """The threshold, and from where on the keys, now sorted, may be below it."""
        if isinstance(self.threshold, Fixed):
            threshold = self.threshold.threshold
            keys.sort()
            return threshold, 0, ()
        share, notes = self._share(profile)
        if len(weights):
            keys.sort()
            in_order = weights[(keys & INDEX).astype(np.int64)]
            return _weighted_quantile(keys, in_order, 1.0 - share), 0, notes
        place = (len(keys) - 1) * (1.0 - share)
        begin = kernel.split(keys, len(keys) - 1 - int(place))
        keys[begin:].sort()
        threshold, behind = kernel.quantile(keys, begin, place)
        return threshold, behind, notes

    def _share(self, profile: SourceProfile) -> tuple[float, tuple[str, ...]]:
        """The confident share, and what there is to say of it."""
        assert not isinstance(self.threshold, Fixed)
        share, note = confident_share(self.threshold, profile)
        return share, () if note is None else (note,)


def check_source_prior(prior: SourcePrior) -> None:
    """Refuse a source prior of another name."""
    if prior not in ("soft", "hard"):
        raise InputError(f'prior: {prior!r} is unknown; use "soft" or "hard"')


def _weighted_quantile(keys: Keys, weights: Vector, quantile: float) -> float:
    """Of the top probabilities of sorted keys, whose weights are in the same order."""
    weight = weights[::-1]
    middle = np.cumsum(weight) - 0.5 * weight
    target = middle[0] + quantile * (middle[-1] - middle[0])
    tops = (np.uint32(ONE) - (keys[::-1] >> HIGH).astype(np.uint32)).view(np.float32)
    return float(np.interp(target, middle, tops.astype(np.float64)))


def _conclude(
    final: Vector,
    source: Vector,
    threshold: float,
    confident: Vector,
    split: int,
    n: int,
    kept: int,
    notes: tuple[str, ...],
) -> Estimate:
    if not split:
        notes += ("no row is confident: the counts start from the low-confidence buffer",)
    if kept:
        notes += (
            f"{kept} rows came with no class counted that they have a share of, and keep theirs",
        )
    prior = final / final.sum()
    details = {
        "threshold": threshold,
        "confident": confident,
        "buffered": n - split,
        "notes": notes,
    }
    return Estimate(prior, weigh(prior, source), n, details)
