"""Columns of a DataFrame as Arrow arrays, to rows, keys and reasons."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stream_leip import InputError, SourceProfile
from stream_leip.arrays import Rows, Vector
from stream_leip.times import screen_times
from stream_leip_connectors.events import Bad, EventDecoder, decode_float32

Format: TypeAlias = Literal["json", "float32"]

_NO_KEY = "no key; give the stream that the event belongs to"
_NO_TIME = "no time; give the event's time as a timestamp, or as epoch seconds"


class Read(NamedTuple):
    """Events of an Arrow batch.

    Parameters
    ----------
    rows
        A line for each event; NaN for a bad one.
    times
        Epoch seconds; NaN where there is none.
    names, codes
        The keys, and which of them each event is of; -1 where there is none.
    reasons
        Why events are bad, by their places.
    """

    rows: Rows
    times: Vector
    names: list[str]
    codes: NDArray[np.int64]
    reasons: dict[int, str]


class Reader:
    """Reads scores, times and keys for a profile.

    Parameters
    ----------
    profile
        Names the classes.
    format
        What bytes hold: an event in JSON, or a row of float32.
    """

    def __init__(self, profile: SourceProfile, format: Format = "json") -> None:
        self._profile = profile
        decoder = EventDecoder(profile)
        m = len(profile.classes)
        self._decode: Callable[[list[bytes]], Any] = (
            decoder.decode if format == "json" else lambda values: decode_float32(values, m)
        )

    def rows(self, scores: Any) -> tuple[Rows, dict[int, str]]:
        """A row for each event, NaN for a bad one, and why those are bad."""
        if isinstance(scores, pa.ChunkedArray):
            scores = scores.combine_chunks()
        if pa.types.is_list(scores.type) or pa.types.is_large_list(scores.type):
            matrix, odd = self._lists(scores)
        else:
            values = [b"" if value is None else bytes(value) for value in scores.to_pylist()]
            matrix, _, _, bad = self._decode(values)
            odd = dict(bad)
        rows, refused = self._profile.screen(matrix)
        if not refused:
            return rows, odd
        return _spread(rows, refused, len(scores)), dict(refused) | odd

    def _lists(self, scores: Any) -> tuple[NDArray[Any], dict[int, str]]:
        """Lists of numbers as a matrix; those that are none, or too short or long, are NaN."""
        m = len(self._profile.classes)
        lengths = scores.value_lengths().fill_null(-1).to_numpy(zero_copy_only=False)
        odd = np.flatnonzero(lengths != m)
        flat = scores.flatten().to_numpy(zero_copy_only=False)
        if not len(odd):
            return flat.reshape(-1, m), {}
        matrix = np.full((len(scores), m), np.nan, flat.dtype)
        own = np.repeat(lengths == m, np.maximum(lengths, 0))
        matrix[lengths == m] = flat[own].reshape(-1, m)
        return matrix, {int(place): _length(int(lengths[place]), m) for place in odd}

    def read(self, scores: Any, micros: Any, keys: Any | None) -> Read:
        """All of a batch: scores, microseconds since the epoch, and the bytes of keys."""
        rows, reasons = self.rows(scores)
        n = len(rows)
        seconds = micros.to_numpy(zero_copy_only=False) / 1e6
        times = screen_times(np.where(np.isnan(seconds), np.inf, seconds), n)
        for place in np.flatnonzero(np.isnan(times)).tolist():
            reasons.setdefault(place, _NO_TIME)
        names: list[str] = []
        codes = np.zeros(n, np.int64)
        if keys is not None:
            names, codes = _names(keys, reasons)
        if reasons:
            rows[list(reasons)] = np.nan
        return Read(rows, times, names, codes, reasons)


def _spread(rows: Rows, refused: list[Bad], n: int) -> Rows:
    """Rows in their places, with NaN for those that were refused."""
    spread = np.full((n, rows.shape[1]), np.nan, np.float32)
    spread[np.delete(np.arange(n), [place for place, _ in refused])] = rows
    return spread


def _length(found: int, m: int) -> str:
    if found < 0:
        return f"no scores; give those of all {m} classes"
    return f"{found} scores, but the profile has {m} classes"


def _names(keys: Any, reasons: dict[int, str]) -> tuple[list[str], NDArray[np.int64]]:
    """The keys as text, and which of them each event is of."""
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    coded = keys.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    names = []
    for code, value in enumerate(coded.dictionary.to_pylist()):
        name, reason = _name(value)
        names.append(name)
        if reason is not None:
            for place in np.flatnonzero(codes == code).tolist():
                reasons.setdefault(place, reason)
            codes[codes == code] = -1
    for place in np.flatnonzero(codes == -1).tolist():
        reasons.setdefault(place, _NO_KEY)
    return names, codes


def _name(value: bytes) -> tuple[str, str | None]:
    if not value:
        return "", _NO_KEY
    try:
        return value.decode(), None
    except UnicodeDecodeError as error:
        return "", f"key: not UTF-8: {error.reason} (byte {error.start})"


def check_format(format: str) -> None:
    """InputError unless a format is known."""
    if format not in ("json", "float32"):
        raise InputError(f'format: {format!r} is unknown; use "json" or "float32"')
