"""Events from lines of CSV."""

import csv
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError
from stream_leip_connectors.columns import assemble
from stream_leip_connectors.events import Bad, Events, Fields


class CsvDecoder:
    """Turns lines of CSV into arrays. A record is one line: no text in it holds a newline.

    Parameters
    ----------
    header
        The names of the columns.
    classes
        Those of the profile; each has a column.
    fields
        Which other column holds what.
    """

    def __init__(self, header: Sequence[str], classes: tuple[str, ...], fields: Fields) -> None:
        twice = [name for name in classes if list(header).count(name) > 1]
        if twice:
            raise InputError(f"column {twice[0]!r} is there more than once; drop one of them")
        self._width = len(header)
        self._m = len(classes)
        self._scores = itemgetter(*[header.index(name) for name in classes])
        self._time = None if fields.time is None else header.index(fields.time)
        self._key = None if fields.key is None else header.index(fields.key)

    def decode_lines(self, block: bytes) -> tuple[Events, NDArray[np.int64]]:
        """One event from each line that is not blank, and which line of the block it was."""
        lines = block.split(b"\n")
        numbers = [number for number, line in enumerate(lines) if line and not line.isspace()]
        return self._decode([lines[number] for number in numbers]), np.array(numbers, np.int64)

    def _decode(self, lines: list[bytes]) -> Events:
        try:
            records = list(csv.reader(b"\n".join(lines).decode().split("\n"), strict=True))
            if len(records) == len(lines) and {len(each) for each in records} <= {self._width}:
                flat = map(float, chain.from_iterable(map(self._scores, records)))
                scores = np.fromiter(flat, np.float64, len(lines) * self._m)
                return self._events(scores.reshape(-1, self._m), records, [])
        except (csv.Error, ValueError):
            pass  # some line is bad: each is looked at by itself
        scores = np.full((len(lines), self._m), np.nan)
        records = []
        bad: list[Bad] = []
        for place, line in enumerate(lines):
            record, reason = self._record(line)
            if reason is None:
                try:
                    scores[place] = list(map(float, self._scores(record)))
                except ValueError as error:
                    reason = f"not a score: {error}"
            if reason is not None:
                bad.append((place, reason))
            records.append(record)
        return self._events(scores, records, bad)

    def _record(self, line: bytes) -> tuple[list[str], str | None]:
        nothing = [""] * self._width
        try:
            (record,) = csv.reader([line.decode()], strict=True)
        except UnicodeDecodeError as error:
            return nothing, f"not UTF-8: {error.reason}"
        except (csv.Error, ValueError) as error:
            return nothing, f"not CSV: {error}"
        if len(record) != self._width:
            return nothing, f"{len(record)} columns, but the header has {self._width}"
        return record, None

    def _events(
        self, scores: NDArray[np.float64], records: list[list[str]], bad: list[Bad]
    ) -> Events:
        times = None if self._time is None else [each[self._time] for each in records]
        keys = None if self._key is None else [each[self._key] for each in records]
        return assemble(scores, times, keys, bad)


def csv_header(line: bytes, name: str) -> list[str]:
    """The names of the columns."""
    try:
        (header,) = csv.reader([line.decode("utf-8-sig")], strict=True)
    except (UnicodeDecodeError, ValueError, csv.Error) as error:
        raise InputError(f"{name}: its first line is no header of UTF-8 CSV: {error}") from error
    return [each.strip() for each in header]
