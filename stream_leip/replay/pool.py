"""Labelled scores that a replay draws its events from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Labels, Matrix, Scores, Vector
from stream_leip.errors import InputError


@dataclass(frozen=True, eq=False)
class Pool:
    """Labelled scores; rows are drawn with replacement, so that labels follow a prior.

    Parameters
    ----------
    scores
        Rows × classes, as the profile takes them; the profile's own validation rows would flatter.
    labels
        The true class of each row: its place, or its name where `classes` are given.
    classes
        Names, in the order of the score columns.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.replay import Pool
    >>> pool = Pool(np.eye(3)[[0, 1, 2, 2]], ["a", "b", "c", "c"], classes=["a", "b", "c"])
    >>> pool.sizes
    array([1, 1, 2])
    """

    scores: Scores
    labels: Any
    classes: Sequence[str] | None = None
    sizes: NDArray[np.int64] = field(init=False)
    _order: NDArray[np.int64] = field(init=False, repr=False)
    _begins: NDArray[np.int64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores)
        if scores.ndim != 2 or scores.dtype.kind != "f" or scores.shape[1] < 2 or not len(scores):
            raise InputError(
                f"scores: {scores.dtype} of shape {scores.shape}; give floats, rows × classes"
            )
        labels = _places(self.labels, self.classes, *scores.shape)
        sizes = np.bincount(labels, minlength=scores.shape[1])
        for name, value in (
            ("scores", scores),
            ("labels", labels),
            ("sizes", sizes),
            ("_order", np.argsort(labels, kind="stable")),
            ("_begins", np.cumsum(sizes) - sizes),
        ):
            object.__setattr__(self, name, value)

    def draw(self, priors: Matrix, chance: Matrix) -> tuple[NDArray[np.int64], Labels]:
        """A row for each prior, and its label.

        Parameters
        ----------
        priors
            One for each event.
        chance
            Two numbers from 0 up to 1 for each event: they choose the label, and its row.
        """
        sums = np.cumsum(priors, axis=1)
        labels = (sums <= (chance[:, :1] * sums[:, -1:])).sum(axis=1)
        labels = np.minimum(labels, priors.shape[1] - 1)
        sizes = self.sizes[labels]
        if not sizes.all():
            empty = int(labels[sizes == 0][0])
            name = empty if self.classes is None else repr(self.classes[empty])
            raise InputError(
                f"pool: no row of class {name}, which the schedule asks for; add some, or give "
                "that class no share"
            )
        return self._order[self._begins[labels] + (chance[:, 1] * sizes).astype(np.int64)], labels

    def check_classes(self, m: int) -> None:
        """Refuse a pool that has not the columns of `m` classes."""
        if self.scores.shape[1] != m:
            raise InputError(
                f"pool: its scores have {self.scores.shape[1]} columns, but the profile has "
                f"{m} classes"
            )

    @property
    def shares(self) -> Vector:
        """The share of each class among the rows."""
        return np.asarray(self.sizes / self.sizes.sum())


def _places(labels: Any, classes: Sequence[str] | None, n: int, m: int) -> Labels:
    given = np.asarray(labels)
    if given.shape != (n,):
        raise InputError(f"labels: shape {given.shape} for {n} rows of scores; give one a row")
    if classes is not None and len(set(classes)) != m:
        raise InputError(f"classes: {len(set(classes))} names for {m} columns; give one for each")
    if given.dtype.kind in "iu":
        odd = np.flatnonzero((given < 0) | (given >= m))
        if len(odd):
            raise InputError(
                f"labels: label {given[odd[0]]} of row {odd[0]} is out of range; use 0 to {m - 1}"
            )
        return given.astype(np.int64)
    if classes is None or given.dtype.kind not in "UO":
        raise InputError(f"labels: an array of {given.dtype}; give places, or names and `classes`")
    place = {name: j for j, name in enumerate(classes)}
    names, inverse = np.unique(given.astype(str), return_inverse=True)
    unknown = [name for name in names.tolist() if name not in place]
    if unknown:
        raise InputError(f"labels: {unknown[0]!r} is no class; the classes are {list(classes)}")
    return np.array([place[name] for name in names.tolist()], np.int64)[inverse]
