"""Event time: epoch seconds, or datetimes that know their zone."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stream_leip.arrays import Vector
from stream_leip.errors import InputError

Time: TypeAlias = float | datetime
Times: TypeAlias = NDArray[Any] | Sequence[Time]

# Years 5 to 5138: what is beyond is in milliseconds, and would stop the clock for ever.
_EARLIEST, _LATEST = -6.2e10, 1e11


def epoch_seconds(time: Time) -> float:
    """One time as epoch seconds."""
    if isinstance(time, datetime):
        if time.tzinfo is None:
            raise InputError(f"time: {time!r} has no time zone; use datetime.now(UTC), say")
        return time.timestamp()
    if isinstance(time, bool | np.bool_) or not isinstance(time, int | float | np.number):
        raise InputError(f"time: {time!r} is no time; use epoch seconds or an aware datetime")
    try:
        seconds = float(time)
    except (OverflowError, TypeError):  # a whole number beyond all floats, or a complex one
        seconds = float("nan")
    if not _EARLIEST < seconds < _LATEST:
        raise InputError(
            f"time: {time!r} is not in epoch seconds; divide milliseconds by 1000, "
            "and drop events without a time"
        )
    return seconds


def epoch_array(times: Times, n: int) -> Vector:
    """A time for each of `n` events as epoch seconds."""
    if isinstance(times, np.ndarray) and times.dtype.kind == "M":
        raise InputError(
            "times: datetime64 has no time zone; pass epoch seconds, as in "
            "times.astype('datetime64[us]').astype(float) / 1e6 for UTC"
        )
    if isinstance(times, str | bytes) or not hasattr(times, "__len__"):
        raise InputError(f"times: {times!r} is no list of times; give one for each event")
    if len(times) != n:
        raise InputError(f"times: {len(times)} times for {n} events; give one for each event")
    given = np.asarray(times)
    if given.dtype.kind not in "fiu" or given.ndim != 1:
        return np.array([epoch_seconds(time) for time in times], np.float64)
    seconds = given.astype(np.float64)
    odd = np.flatnonzero(~((seconds > _EARLIEST) & (seconds < _LATEST)))
    if len(odd):
        epoch_seconds(float(seconds[odd[0]]))
    return seconds


def screen_times(times: Times, n: int) -> Vector:
    """A time for each of `n` events as epoch seconds; NaN for what is no time."""
    try:
        return epoch_array(times, n)
    except InputError:
        listed = hasattr(times, "__len__") and not isinstance(times, str | bytes)
        zoneless = isinstance(times, np.ndarray) and times.dtype.kind == "M"
        if not listed or zoneless or len(times) != n:
            raise
    seconds = np.full(n, np.nan)
    for place, time in enumerate(times):
        with suppress(InputError):
            seconds[place] = epoch_seconds(time)
    return seconds


def span_seconds(name: str, span: float | timedelta, *, zero: bool = False) -> float:
    """A length of time as seconds."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | np.number):
        raise InputError(f"{name}: {span!r} is no length of time; use seconds or a timedelta")
    if not (np.isfinite(seconds) and (seconds > 0 or (zero and seconds == 0))):
        least = "at least zero" if zero else "more than zero"
        raise InputError(f"{name}: {span!r}; use {least}")
    return float(seconds)
