"""Events from columns of scores, times and keys."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError
from stream_leip.times import epoch_seconds
from stream_leip_connectors.events import Bad, Events


def assemble(
    scores: NDArray[Any], times: Sequence[Any] | None, keys: Sequence[Any] | None, bad: list[Bad]
) -> Events:
    """Events from columns; those without a time or a key, where they should have one, are bad."""
    odd = dict(bad)
    seconds = None
    if times is not None:
        seconds = _seconds(times, odd)
    names = None
    if keys is not None:
        names = list(map(str, keys))
        # What tables have where there is nothing.
        if not {"", "None", "nan"}.isdisjoint(names):
            for place, key in enumerate(keys):
                if key is None or key == "" or (isinstance(key, float) and np.isnan(key)):
                    odd.setdefault(place, "no key; give the stream that the event belongs to")
    if odd:
        # Integers cannot be NaN.
        scores = scores.astype(np.promote_types(scores.dtype, np.float32))
        scores[list(odd)] = np.nan
        for place in odd:
            if seconds is not None:
                seconds[place] = 0.0
            if names is not None:
                names[place] = ""
    return Events(scores, seconds, names, sorted(odd.items()))


def _seconds(times: Sequence[Any], odd: dict[int, str]) -> NDArray[np.float64]:
    try:
        seconds = np.array(times, np.float64)
    except (ValueError, TypeError):
        seconds = np.full(len(times), np.nan)
    for place in np.flatnonzero(~((seconds > -6e10) & (seconds < 1e11))).tolist():
        if place in odd:
            continue
        try:
            seconds[place] = epoch_seconds(_time(times[place]))
        except ValueError as error:
            odd[place] = str(error)
    return seconds


def _time(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return float(given)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(given)
    except ValueError:
        raise InputError(
            f"time: {given!r} is no time; use epoch seconds, or RFC 3339 with a zone"
        ) from None
