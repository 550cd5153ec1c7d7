"""What a profile keeps of its validation rows: data only."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Labels, Matrix, Rows, Vector


@dataclass(frozen=True, eq=False)
class Validation:
    """Statistics of the labelled validation rows.

    Parameters
    ----------
    n
        How many rows there were.
    hard
        Joint confusion, predicted × true: the share of rows with this label and that class.
    soft
        The same with posteriors in place of labels.
    nll, ece
        Negative log-likelihood and expected calibration error, before and after calibration.
    """

    n: int
    hard: Matrix
    soft: Matrix
    nll: tuple[float, float]
    ece: tuple[float, float]


class FeatureView(NamedTuple):
    """Class features as one of the check's two tests takes them: k combinations of them.

    Parameters
    ----------
    combine
        Features × combinations.
    means
        k × m.
    covariances
        g × k², a line for each group.
    variances
        k.
    """

    combine: Matrix
    means: Matrix
    covariances: Matrix
    variances: Vector


@dataclass(frozen=True, eq=False)
class ClassFeatures:
    """The assumption check's features of the validation rows, by true class.

    With many classes the smaller ones of the source form one group; else each class is one. Rows
    have an entry for each of the g groups, so that there are 2g features.

    Parameters
    ----------
    groups
        The group of each class.
    centres
        Mean centred log-row of each predicted group, g × g.
    factor
        Lower triangular, g × g: atypicality is the size of factor' (log-row less its centre).
    offset
        Mean atypicality of the validation rows, each scored without its own fold.
    means
        Of each feature in each true class, 2g × m.
    covariances
        Of the features within the classes of a group, g × 2g × 2g; pooled over all where a group
        has too few rows.
    variances
        Of each feature over all rows, and of the atypicality, 2g + 1.
    counts
        Validation rows of each true class.
    """

    groups: NDArray[np.int64]
    centres: Matrix
    factor: Matrix
    offset: float
    means: Matrix
    covariances: NDArray[np.float64]
    variances: Vector
    counts: NDArray[np.int64]

    def group(self, prior: Vector) -> Vector:
        """Shares of classes as shares of groups."""
        shares: Vector = np.bincount(self.groups, prior, minlength=len(self.factor)).astype(float)
        return shares

    def mix(self, prior: Vector) -> tuple[Matrix, Vector]:
        """How each group is mixed of its classes, m × g, and how many rows its means are worth.

        A group whose classes differ has other means when their shares change among themselves.
        """
        g = len(self.factor)
        if g == len(self.counts):
            return self._unmixed
        counts = np.maximum(self.counts, 1).astype(float)
        shares = np.maximum(prior, 0.0) + 1e-6 * counts / counts.sum()
        within = np.zeros((len(counts), g))
        within[np.arange(len(counts)), self.groups] = shares / self.group(shares)[self.groups]
        return within, 1.0 / (within**2 / counts[:, None]).sum(axis=0)

    @cached_property
    def group_counts(self) -> NDArray[np.int64]:
        """Validation rows of each group."""
        return self.group(self.counts.astype(float)).astype(np.int64)

    @cached_property
    def _unmixed(self) -> tuple[Matrix, Vector]:
        """The same where each class is a group."""
        return np.eye(len(self.factor)), np.maximum(self.counts, 1).astype(float)

    @cached_property
    def by_slot(self) -> FeatureView:
        """Every feature."""
        return self._view(np.eye(len(self.means)), self.variances[:-1])

    @cached_property
    def summed(self) -> FeatureView:
        """One atypicality in place of one for each predicted class."""
        g = len(self.factor)
        combine = np.zeros((2 * g, g + 1))
        combine[:g, :g] = np.eye(g)
        combine[g:, g] = 1.0
        return self._view(combine, self.variances[[*range(g), -1]])

    def _view(self, combine: Matrix, variances: Vector) -> FeatureView:
        within = combine.T @ self.covariances @ combine
        return FeatureView(
            combine,
            combine.T @ self.means,
            within.reshape(len(within), -1),
            # A feature that never varied has no scale of its own.
            np.maximum(variances, 1e-9 * variances.max() + 1e-12),
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """What intervals, alarm and check need to know of the validation rows.

    Parameters
    ----------
    covariance
        Of the calibrated rows, m × m.
    soft, hard
        Covariance of what was fitted: the calibrator's scales (none, one, or one a class), then for
        each class its bias less the logarithm of its soft or hard source prior.
    normaliser
        With a scale for each class: how a calibrated row's logarithms predict the logarithm of what
        it was divided by, a constant and m slopes. Else empty.
    rows, labels
        At most `KEPT` rows, and their classes.
    features
        Those of the assumption check.
    """

    covariance: Matrix
    soft: Matrix
    hard: Matrix
    normaliser: Vector
    rows: Rows
    labels: Labels
    features: ClassFeatures
