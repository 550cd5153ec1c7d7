"""What every estimator takes and gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stream_leip.arrays import Rows, Vector
from stream_leip.errors import InputError
from stream_leip.profile import SourceProfile
from stream_leip.rows import check_distributions, check_rows

_LARGEST_WEIGHT = 1e100
NO_WEIGHTS: Vector = np.empty(0)
# Rows have an entry for each class.
ALL_CLASSES: NDArray[np.uint16] = np.empty((0, 0), np.uint16)


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimated class mix.

    Parameters
    ----------
    prior
        The share of each class; sums to one.
    weights
        `prior` over the source prior that the estimator used.
    n
        How many rows it saw, those of no weight aside.
    details
        What the estimator has to say beside: thresholds, counts, gaps, fall-backs.
    """

    prior: Vector
    weights: Vector
    n: int
    details: Mapping[str, object] = field(default_factory=dict)


class Estimator(Protocol):
    """The rows in scope to the prior behind them."""

    def estimate(
        self,
        rows: Rows,
        profile: SourceProfile,
        *,
        weights: ArrayLike | None = None,
        start: ArrayLike | None = None,
    ) -> Estimate:
        """Estimate the prior.

        Parameters
        ----------
        rows
            Made by `profile.rows`.
        profile
            The source.
        weights
            One nonnegative number for each row; all one unless given.
        start
            A prior to start the search from, for estimators that search.
        """


class RowSet(Protocol):
    """Rows in any order, in full or their largest entries."""

    @property
    def rows(self) -> Rows:
        """The rows, or their entries."""

    @property
    def classes(self) -> NDArray[np.uint16]:
        """Whose entries the rows have; empty where they have all."""


class Arrived(RowSet, Protocol):
    """Rows in order of arrival, labelled and keyed; see `Recent`."""

    @property
    def labels(self) -> NDArray[np.uint16]:
        """Of the rows."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Of the rows, with a confidence and no place."""


class Ranked(RowSet, Protocol):
    """Rows from most to least confident; see `Pane`."""

    @property
    def labels(self) -> NDArray[np.uint16]:
        """Of the rows."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """Of the rows, ascending."""

    def split(self, threshold: float) -> int:
        """How many rows are at or above the threshold."""

    def confident(self, threshold: float) -> tuple[NDArray[np.int64], int]:
        """Their label counts, and how many they are."""


class Scope(NamedTuple):
    """Checked arguments of an estimate; no weights is an empty array."""

    rows: Rows
    weights: Vector
    start: Vector | None

    @property
    def weighted(self) -> bool:
        """Whether rows have weights."""
        return len(self.weights) > 0

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.weights.sum()) if self.weighted else float(len(self.rows))


def check_scope(
    rows: Rows,
    profile: SourceProfile,
    weights: ArrayLike | None,
    start: ArrayLike | None,
    *,
    distributions: bool = True,
) -> Scope:
    """Check what was passed to `estimate`; nothing is copied unless it has to be.

    A caller whose own first pass sees that each row is a distribution turns that check off.
    """
    rows = check_rows(rows, len(profile.classes))
    if distributions:
        check_distributions(rows)
    checked = NO_WEIGHTS if weights is None else _check_weights(weights, len(rows))
    if len(checked) and not checked.all():
        # A row of no weight is as good as absent.
        rows, checked = rows[checked > 0.0], checked[checked > 0.0]
    return Scope(rows, checked, None if start is None else _check_start(start, profile))


def _check_weights(weights: ArrayLike, n: int) -> Vector:
    try:
        checked = np.ascontiguousarray(weights, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"weights: not numbers ({error}); give one for each row") from error
    if checked.shape != (n,):
        raise InputError(f"weights: the shape is {checked.shape}, but there are {n} rows")
    unusable = np.flatnonzero(~(np.isfinite(checked) & (checked >= 0.0)))
    if len(unusable):
        place = unusable[0]
        raise InputError(
            f"weights: weight {place} is {checked[place]}; use finite numbers of at least zero"
        )
    if not checked.any():
        raise InputError("weights: all are zero; give some row a positive weight")
    if checked.max() > _LARGEST_WEIGHT:
        raise InputError(
            f"weights: the largest is {checked.max():.3g}; divide all by it, for only ratios matter"
        )
    return checked


def _check_start(start: ArrayLike, profile: SourceProfile) -> Vector:
    try:
        checked = np.asarray(start, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"start: not numbers ({error}); give a share for each class") from error
    if checked.shape != (len(profile.classes),):
        raise InputError(
            f"start: the shape is {checked.shape}, but there are {len(profile.classes)} classes"
        )
    total = float(checked.sum())
    if not (np.isfinite(total) and checked.min() >= 0.0 and abs(total - 1.0) <= 1e-3):
        raise InputError(f"start: {checked.tolist()} is not a prior: nonnegative, summing to one")
    return checked / total


def weigh(prior: Vector, source: Vector) -> Vector:
    """Prior over source prior."""
    return prior / np.maximum(source, np.finfo(np.float64).tiny)
