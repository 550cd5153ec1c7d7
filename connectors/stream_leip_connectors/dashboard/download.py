"""What is shown, as CSV."""

import csv
import io
from datetime import UTC, datetime

import numpy as np

from stream_leip_connectors.dashboard.streams import Picture
from stream_leip_connectors.dashboard.telling import shown

HEADER = (
    "stream", "events", "time", "updates", "class", "prior", "low", "high", "source", "n",
    "memory", "alarm", "alarm_threshold", "confident", "buffered",
)  # fmt: skip


def as_csv(
    picture: Picture, classes: list[int], first: float | None = None, last: float | None = None
) -> str:
    """A line for each step and class.

    Parameters
    ----------
    picture
        Of the stream.
    classes
        Places of those that are wanted.
    first, last
        Of the x axis: milliseconds since the epoch, or events.
    """
    past = picture.past
    x = 1000.0 * past.end if picture.timed else past.number
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(HEADER)
    scalars = (past.n, past.memory, past.alarm, past.threshold, past.confident, past.buffered)
    for i in np.flatnonzero(shown(x, first, last)).tolist():
        end = float(past.end[i])
        time = "" if np.isnan(end) else datetime.fromtimestamp(end, UTC).isoformat()
        before = (picture.name, f"{past.number[i]:.0f}", time, f"{past.updates[i]:.0f}")
        after = [_number(float(column[i]), 10) for column in scalars]
        for j in classes:
            shares = [float(each[i, j]) for each in (past.prior, past.low, past.high)]
            home = float("nan") if picture.source is None else float(picture.source[j])
            mix = [_number(each, 7) for each in (*shares, home)]
            writer.writerow((*before, picture.classes[j], *mix, *after))
    return out.getvalue()


def _number(value: float, digits: int) -> str:
    return "" if np.isnan(value) else f"{value:.{digits}g}"
