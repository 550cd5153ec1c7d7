"""The rolling validation set: the last scores that came with a label."""

from collections import deque
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from stream_leip.arrays import Labels, Matrix

# Of a class that is rare among the last pairs, so many are there all the same.
KEPT = 10
# A class needs so many pairs before anything is said about it.
FEWEST = 5
_SMALLEST = 256


class Pairs:
    """The last (scores, label) pairs, and the last few of each class.

    Label shift needs each class's scores, in whatever proportion: without its last few, a class
    that did not come for a while would be forgotten.

    Parameters
    ----------
    most
        How many pairs to keep, the last few of each class aside.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._columns: dict[Hashable, int] = {}
        self._scores: Matrix = np.zeros((min(_SMALLEST, most), 0))
        self._labels: Labels = np.zeros(len(self._scores), np.int64)
        self._latest: dict[int, deque[list[float]]] = {}
        self.n = 0

    def add(self, scores: Mapping[Any, float], label: Hashable) -> None:
        """Take a pair; the scores have an entry for the label."""
        columns = self._columns
        values = [scores.get(name, 0.0) for name in columns]
        if len(values) < len(scores) or any(name not in columns for name in scores):
            self._add_columns(scores)
            values = [scores.get(name, 0.0) for name in columns]
        place = self.n % self._most
        if place == len(self._scores):
            self._grow()
        self._scores[place] = values
        column = columns[label]
        self._labels[place] = column
        if column not in self._latest:
            self._latest[column] = deque(maxlen=KEPT)
        self._latest[column].append(values)
        self.n += 1

    def _add_columns(self, scores: Mapping[Any, float]) -> None:
        for name in scores:
            self._columns.setdefault(name, len(self._columns))
        wider = np.zeros((len(self._scores), len(self._columns)))
        wider[:, : self._scores.shape[1]] = self._scores
        self._scores = wider

    def _grow(self) -> None:
        more = min(len(self._scores), self._most - len(self._scores))
        self._scores = np.concatenate([self._scores, np.zeros((more, self._scores.shape[1]))])
        self._labels = np.concatenate([self._labels, np.zeros(more, np.int64)])

    def known(self) -> list[Hashable]:
        """The classes with enough pairs, in the order they came."""
        enough = {column for column, pairs in self._latest.items() if len(pairs) >= FEWEST}
        return [name for name, column in self._columns.items() if column in enough]

    def last(self, most: int, known: list[Hashable]) -> tuple[Matrix, Labels]:
        """Scores and columns of the labels of the last pairs, other classes than these left out."""
        places = np.arange(max(0, self.n - min(most, self._most)), self.n) % self._most
        columns = [self._columns[name] for name in known]
        place = np.full(len(self._columns), -1)
        place[columns] = np.arange(len(columns))
        labels = place[self._labels[places]]
        kept = labels >= 0
        return self._scores[places[kept]][:, columns], labels[kept]

    def validation(self, most: int, known: list[Hashable]) -> tuple[Matrix, Labels]:
        """As `last`, with older pairs of the classes that are rare there."""
        scores, labels = self.last(most, known)
        parts, truths = [scores], [labels]
        for j, count in enumerate(np.bincount(labels, minlength=len(known))):
            column = self._columns[known[j]]
            latest = list(self._latest[column])
            for values in latest[: len(latest) - count] if count < KEPT else ():
                full = values + [0.0] * (len(self._columns) - len(values))
                parts.append(np.array([[full[self._columns[name]] for name in known]]))
                truths.append(np.array([j]))
        return np.concatenate(parts), np.concatenate(truths)
