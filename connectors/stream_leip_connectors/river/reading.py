"""Posteriors as River's verbs take them: by class, and a class may be missing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from operator import itemgetter
from struct import calcsize, pack
from typing import Any

import numpy as np

from stream_leip import InputError, SourceProfile
from stream_leip._kernels.gate import LARGEST_LOGIT, SUM_TOLERANCE
from stream_leip._kernels.mixture import PANE
from stream_leip.arrays import Rows, Scores
from stream_leip.rows import as_scores, frame_columns, is_frame


class Reader:
    """Scores in the order of the profile's classes.

    A class that a dict or a frame leaves out has no probability, as with River's classifiers,
    which name the classes they have seen.

    Parameters
    ----------
    profile
        The source.
    """

    def __init__(self, profile: SourceProfile) -> None:
        self._profile = profile
        self._logits = profile.kind == "logits"
        self._missing = -LARGEST_LOGIT if self._logits else 0.0
        self._m = len(profile.classes)
        self._all: Callable[[Any], tuple[Any, ...]] = itemgetter(*profile.classes)

    def one(self, x: Any) -> Sequence[float]:
        """One event's scores, checked; x is a dict by class, or has a score for each class.

        Raises
        ------
        InputError
            If a class is unknown, or a score is none. The message says which.
        """
        found: Sequence[Any]
        if type(x) is dict:
            try:
                found = self._all(x) if len(x) == self._m else self._by_class(x)
            except KeyError:  # names that are no text, or none of ours
                found = self._by_class(x)
        elif isinstance(x, np.ndarray):
            found = x.tolist()
        elif isinstance(x, Mapping):
            found = self._by_class(dict(x))
        elif isinstance(x, Iterable):
            found = tuple(x)
        else:
            raise InputError(
                f"x: {x!r} is no posterior; give a dict by class, or a score for each of the "
                f"{self._m} classes"
            )
        try:
            total = sum(found)
            if self._logits:
                fine = isfinite(total)
            else:
                fine = -SUM_TOLERANCE <= total - 1.0 <= SUM_TOLERANCE and min(found) >= 0.0
            if fine and len(found) == self._m and type(total) is float:
                return found
        except (TypeError, ValueError):
            pass
        if isinstance(x, np.ndarray) and x.ndim != 1:
            raise InputError(
                f"x: an array of shape {x.shape} is not one posterior; give its lines one by one, "
                "or all of them to update_many or learn_many"
            )
        self._profile.rows([found])  # says what is wrong, if it is
        return [float(value) for value in found]

    def _by_class(self, x: dict[Any, Any]) -> Sequence[Any]:
        missing = self._missing
        return [missing if key is None else x[key[0]] for key in self._find(tuple(x))]

    def many(self, scores: Any) -> Scores:
        """Many events' scores, checked: an array, lists, dicts, or a data frame.

        Raises
        ------
        InputError
            As for one.
        """
        profile = self._profile
        if is_frame(scores):
            names = frame_columns(scores)
            places = self._find(tuple(names))
            columns = [
                np.full(len(scores), self._missing)
                if place is None
                else np.asarray(scores[names[place[0]]], float)
                for place in places
            ]
            scores = np.column_stack(columns)
        elif not isinstance(scores, np.ndarray) and any(isinstance(x, Mapping) for x in scores):
            scores = [self.one(x) for x in scores]
        return as_scores(scores, profile.classes, profile.kind)

    def _find(self, keys: tuple[Any, ...]) -> list[tuple[Any] | None]:
        """For each class its key, in a tuple, or None."""
        classes = self._profile.classes
        by_name: dict[str, tuple[Any]] = {str(key): (key,) for key in keys}
        unknown = [name for name in by_name if name not in classes]
        if unknown or not by_name:
            shown = ", ".join(classes[:10]) + (", …" if len(classes) > 10 else "")
            what = f"class {unknown[0]!r} is unknown" if unknown else "no class is named"
            # Nothing that is known: most likely features, as in `model | PosteriorAdapter(…)`.
            features = bool(by_name) and len(unknown) == len(by_name)
            hint = "; for features, wrap the model in LabelShiftClassifier" if features else ""
            raise InputError(f"x: {what}; the classes of the profile are {shown}{hint}")
        return [by_name.get(name) for name in classes]


class Inlet:
    """Gathers events, in bytes, until they are a pane's worth: arrays are slow to make one by one.

    Parameters
    ----------
    profile
        The source.
    """

    def __init__(self, profile: SourceProfile) -> None:
        self._profile = profile
        self._reader = Reader(profile)
        self._format = f"{len(profile.classes)}d"
        self._full = PANE * calcsize(self._format)
        self._waiting = bytearray()

    def take(self, x: Any) -> Rows | None:
        """Take an event; give the rows of a pane when there are enough."""
        waiting = self._waiting
        waiting += pack(self._format, *self._reader.one(x))
        return self.drain() if len(waiting) == self._full else None

    def take_many(self, scores: Any) -> list[Rows]:
        """Take many events; give the rows of each pane that is full."""
        more = self._reader.many(scores)
        both = np.concatenate([self._scores(), more])
        whole = len(both) - len(both) % PANE
        self._waiting = bytearray(both[whole:].tobytes())
        rows = self._profile.all_rows(both[:whole])
        return [rows[begin : begin + PANE] for begin in range(0, whole, PANE)]

    def drain(self) -> Rows:
        """The rows of all events that wait."""
        scores = self._scores()
        self._waiting = bytearray()
        return self._profile.all_rows(scores)

    def _scores(self) -> Scores:
        return np.frombuffer(self._waiting).reshape(-1, len(self._profile.classes))

    def row(self, x: Any) -> Rows:
        """The row of an event that is not taken."""
        return self._profile.all_rows(np.array([self._reader.one(x)]))
