"""A schedule of one's own, from a .csv file: a column of times, and one for each class."""

import csv
from datetime import datetime
from pathlib import Path

from stream_leip import InputError
from stream_leip.replay import FromTable

TIME = "time"


def read_mixes(path: Path, classes: tuple[str, ...], straight: bool = False) -> FromTable:
    """Read a table of mixes.

    Parameters
    ----------
    path
        A .csv file whose header names `time` and every class, in any order. Times are numbers of
        any unit, or ISO dates with a zone.
    classes
        Of the profile.
    straight
        Whether the mix goes in straight lines from one line to the next, or holds until it.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(csv.reader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    header = lines[0] if lines else []
    if sorted(header) != sorted((TIME, *classes)):
        raise InputError(
            f"{path}: the header is {header}; name {TIME!r} and each class once: "
            f"{', '.join(classes[:10])}"
        )
    order = [header.index(name) for name in classes]
    times: list[float] = []
    mixes: list[list[float]] = []
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        try:
            if len(line) != len(header):
                raise ValueError(f"{len(line)} fields for {len(header)} columns")
            times.append(_time(line[header.index(TIME)]))
            mixes.append([float(line[place]) for place in order])
        except ValueError as error:
            raise InputError(f"{path}: line {number}: {error}") from error
    return FromTable(times, mixes, straight)


def _time(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"the time {text} has no zone; write 2025-01-31T12:00:00+00:00, say")
    return time.timestamp()
