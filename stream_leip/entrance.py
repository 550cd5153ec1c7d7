"""The entrance of a stream: scores and times are checked before anything changes."""

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_leip._kernels import gate as kernel
from stream_leip.arrays import Rows, Vector
from stream_leip.errors import InputError
from stream_leip.profile import SourceProfile
from stream_leip.rows import ScoresLike
from stream_leip.times import Time, Times, epoch_array, epoch_seconds, screen_times

_FLOATS = (np.float32, np.float64)

OnBad = Literal["raise", "skip"]


class Batch(NamedTuple):
    """Events that came through the gate.

    Parameters
    ----------
    rows
        The good ones.
    times
        Theirs, where events have any.
    places
        Where among all events of the batch each row stood.
    n
        How many events there were, bad ones included.
    """

    rows: Rows
    times: Vector | None
    places: NDArray[np.int64]
    n: int


class Entrance:
    """Events to rows of a profile.

    Parameters
    ----------
    profile
        The source.
    on_bad
        What to do with scores or times that cannot be used: "raise", or "skip".
    needs_time
        Whether every event must have a time.
    """

    __slots__ = ("_needs_time", "_reason", "_row", "on_bad", "profile")

    def __init__(self, profile: SourceProfile, on_bad: OnBad, *, needs_time: bool) -> None:
        if on_bad not in ("raise", "skip"):
            raise InputError(f'on_bad: {on_bad!r} is unknown; use "raise" or "skip"')
        self.profile = profile
        self.on_bad = on_bad
        self._needs_time = needs_time
        self._row = np.empty((1, len(profile.classes)), np.float32)
        self._reason = np.empty(1, np.uint8)

    def one(self, scores: Any, time: Time | None) -> tuple[Rows | None, float | None]:
        """One event's row, or None if it is bad and to be skipped, and its time."""
        skip = self.on_bad == "skip"
        seconds = None
        if time is None:
            self._check_untimed()
        else:
            try:
                seconds = epoch_seconds(time)
            except InputError:
                if skip:
                    return None, None
                raise
        profile = self.profile
        plain = isinstance(scores, np.ndarray) and scores.dtype in _FLOATS
        if plain and scores.shape == self._row.shape[1:]:
            calibrator = profile.calibrator
            bad = kernel.calibrate(
                scores[None],
                profile.kind == "logits",
                calibrator.identity,
                calibrator.scale,
                calibrator.bias,
                self._row,
                self._reason,
            )
            if not bad:
                return self._row, seconds
        if skip:
            try:
                rows, refused = profile.screen([scores])
            except InputError:
                return None, None
            return (None, None) if refused else (rows, seconds)
        return profile.rows([scores]), seconds

    def many(self, scores: ScoresLike, times: Times | None) -> Batch:
        """Events as a batch; raises before anything changes, or leaves the bad ones out."""
        if times is None:
            self._check_untimed()
        if self.on_bad == "raise":
            rows = self.profile.all_rows(scores)
            seconds = None if times is None else epoch_array(times, len(rows))
            return Batch(rows, seconds, np.arange(len(rows)), len(rows))
        rows, bad = self.profile.screen(scores)
        n = len(rows) + len(bad)
        places = np.delete(np.arange(n), [index for index, _ in bad])
        if times is None:
            return Batch(rows, None, places, n)
        seconds = screen_times(times, n)[places]
        timed = ~np.isnan(seconds)
        return Batch(rows[timed], seconds[timed], places[timed], n)

    def _check_untimed(self) -> None:
        if self._needs_time:
            raise InputError("time: None, but windows by time need the time of every event")
