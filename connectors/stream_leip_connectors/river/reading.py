"""Posteriors as River's verbs take them: by class, and a class may be missing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from operator import itemgetter
from struct import Struct
from typing import Any, cast

import numpy as np

from stream_leip import InputError, SourceProfile
from stream_leip._kernels.gate import LARGEST_LOGIT, SUM_TOLERANCE
from stream_leip._kernels.mixture import PANE
from stream_leip.arrays import Rows, Scores
from stream_leip.rows import as_scores, frame_columns, is_frame

# Off by no more than this a sum is fine however it is summed; beyond, the gate decides.
_SURE = SUM_TOLERANCE / 2


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
        try:
            found = self._all(x) if type(x) is dict and len(x) == self._m else self._find_scores(x)
        except KeyError:  # names that are no text, or none of ours
            found = self._find_scores(x)
        try:
            total = sum(found)
            if self._logits:
                fine = isfinite(total)
            else:
                fine = -_SURE <= total - 1.0 <= _SURE and min(found) >= 0.0
            if fine and isinstance(total, float) and len(found) == self._m:
                return found
        except TypeError:
            pass
        if isinstance(x, np.ndarray) and x.ndim != 1:
            raise InputError(
                f"x: an array of shape {x.shape} is not one posterior; give its lines one by one, "
                "or all of them to update_many or learn_many"
            )
        self._profile.rows([found])  # says what is wrong, if it is
        return [float(value) for value in found]

    def _find_scores(self, x: Any) -> Sequence[Any]:
        if isinstance(x, np.ndarray):
            return cast(list[Any], x.tolist())
        if isinstance(x, Mapping):
            return self._by_class(dict(x))
        if isinstance(x, Iterable):
            return tuple(x)
        raise InputError(
            f"x: {x!r} is no posterior; give a dict by class, or a score for each of the "
            f"{self._m} classes"
        )

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
    """Gathers events, in bytes, until they are worth a call: arrays are slow to make one by one.

    Parameters
    ----------
    profile
        The source.
    panes
        How many panes' worth of events to gather.
    """

    def __init__(self, profile: SourceProfile, panes: int = 1) -> None:
        self._profile = profile
        self._reader = Reader(profile)
        self._m = len(profile.classes)
        self._pack = Struct(f"{self._m}d").pack  # not among what can be pickled
        self._pane = PANE * 8 * self._m
        self._full = panes * self._pane
        self._waiting = bytearray()

    def take(self, x: Any) -> Rows | None:
        """Take an event; give the rows of all that wait when there are enough."""
        waiting = self._waiting
        waiting += self._pack(*self._reader.one(x))
        return self.drain() if len(waiting) == self._full else None

    def take_many(self, scores: Any) -> Rows:
        """Take many events; give the rows of the panes that are full."""
        self._waiting += self._reader.many(scores).astype(float).tobytes()
        return self.drain_panes()

    def drain_panes(self) -> Rows:
        """The rows of the panes that are full; the others go on waiting."""
        waiting = self._waiting
        whole = len(waiting) - len(waiting) % self._pane
        self._waiting = waiting[whole:]
        return self._rows(waiting[:whole])

    def drain(self) -> Rows:
        """The rows of all events that wait."""
        waiting, self._waiting = self._waiting, bytearray()
        return self._rows(waiting)

    def _rows(self, waiting: bytearray) -> Rows:
        return self._profile.all_rows(np.frombuffer(waiting).reshape(-1, self._m))

    def row(self, x: Any) -> Rows:
        """The row of an event that is not taken."""
        return self._profile.all_rows(np.array([self._reader.one(x)]))

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in self.__dict__.items() if name != "_pack"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._pack = Struct(f"{self._m}d").pack
