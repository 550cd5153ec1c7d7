"""The wire: prediction events in, prior updates out, and dead letters for what is no event.

An event is a JSON object, `{"scores": [0.7, 0.2, 0.1], "time": 1700000000, "key": "shop-7"}`, or a
row of little-endian float32. docs/wire.md is for whoever writes or reads it in another language.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from stream_leip import InputError, SourceProfile, Update
from stream_leip.arrays import Vector
from stream_leip.times import epoch_seconds, screen_times

JSON = "application/json"
FLOAT32 = "application/vnd.stream-leip.float32"
DEAD_LETTER_SCHEMA = 1

_NEWLINE, _OPEN, _CLOSE = b"\n{}"
# Where an event that cannot be used stood in its batch, and why.
Bad: TypeAlias = tuple[int, str]


@dataclass(frozen=True)
class Fields:
    """Which field of an event holds what.

    Parameters
    ----------
    scores
        A list in the order of the profile's classes, or an object by class name. None: the event
        itself has a field for each class.
    time
        Epoch seconds, or RFC 3339 text with a zone. None: events have no time.
    key
        Text or a whole number. None: all events are one stream.
    """

    scores: str | None = "scores"
    time: str | None = None
    key: str | None = None


class Events(NamedTuple):
    """A batch of events as arrays.

    Parameters
    ----------
    scores
        A line for each event; NaN for a bad one.
    times
        Epoch seconds, 0 for a bad one; None where events have no time.
    keys
        Empty for a bad one; None where events have no key.
    bad
        Where the bad ones are, and why, in order.
    """

    scores: NDArray[np.floating[Any]]
    times: Vector | None
    keys: list[str] | None
    bad: list[Bad]


class EventDecoder:
    """Turns JSON events into arrays, a batch at a time.

    Parameters
    ----------
    profile
        Names the classes. Where its scores are probabilities, an event may name only its top
        classes: the rest of the mass is spread over the others in proportion to the source prior.
    fields
        Which field holds what.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import fit_profile
    >>> from stream_leip_connectors.events import EventDecoder
    >>> labels = np.arange(60) % 3
    >>> scores = np.where(np.eye(3)[labels] > 0, 0.8, 0.1)
    >>> profile = fit_profile(scores, labels, ["cat", "dog", "fox"], kind="probabilities")
    >>> decoder = EventDecoder(profile)
    >>> events = decoder.decode([
    ...     b'{"scores": [0.7, 0.2, 0.1]}',
    ...     b'{"scores": {"cat": 0.6}, "id": 17}',
    ...     b'{"scores": [0.7, 0.3]}',
    ... ])
    >>> events.scores.round(2)
    array([[0.7, 0.2, 0.1],
           [0.6, 0.2, 0.2],
           [nan, nan, nan]])
    >>> events.bad
    [(2, 'not an event: Expected `array` of length 3 - at `$.scores`')]
    """

    def __init__(self, profile: SourceProfile, fields: Fields = Fields()) -> None:
        self._classes = profile.classes
        self._prior = profile.soft_prior
        self._logits = profile.kind == "logits"
        self._fields = fields
        self._column = {name: j for j, name in enumerate(profile.classes)}
        self._json = msgspec.json.Decoder(_event_type(profile.classes, fields))

    def decode(self, messages: Sequence[bytes]) -> Events:
        """One event from each message."""
        block = b"\n".join(messages)
        decoded = self._whole_block(block) if block.count(b"\n") < len(messages) else None
        if decoded is not None:
            return self._arrays(decoded, len(messages), [], None)
        return self._one_by_one(messages)

    def decode_lines(self, block: bytes) -> tuple[Events, NDArray[np.int64]]:
        """One event from each line that is not blank, and which line of the block it was."""
        decoded = self._whole_block(block[:-1] if block.endswith(b"\n") else block)
        if decoded is not None:
            return self._arrays(decoded, len(decoded), [], None), np.arange(len(decoded))
        lines = block.split(b"\n")
        numbers = [number for number, line in enumerate(lines) if line and not line.isspace()]
        return self._one_by_one([lines[number] for number in numbers]), np.array(numbers, np.int64)

    def _whole_block(self, block: bytes) -> list[Any] | None:
        """All events in one call of the decoder; None unless each line surely is one event.

        If each line begins with { and ends with }, no value can go on over a line's end: inside an
        object or a list, } is never followed by {, and a text holds no bare newline. So each line
        has one object or more, and there are as many as lines only if each has one.
        """
        if not (block.startswith(b"{") and block.endswith(b"}")):
            return None
        letters = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(letters == _NEWLINE)
        if not ((letters[ends - 1] == _CLOSE).all() and (letters[ends + 1] == _OPEN).all()):
            return None
        try:
            _check_utf8(block)
            decoded: list[Any] = self._json.decode_lines(block)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return decoded if len(decoded) == len(ends) + 1 else None

    def _one_by_one(self, messages: Sequence[bytes]) -> Events:
        decoded: list[Any] = []
        bad: list[Bad] = []
        good: list[int] = []
        decode = self._json.decode
        for place, message in enumerate(messages):
            try:
                _check_utf8(message)
                decoded.append(decode(message))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                bad.append((place, _reason(error)))
            else:
                good.append(place)
        return self._arrays(decoded, len(messages), bad, good)

    def _arrays(self, decoded: list[Any], n: int, bad: list[Bad], good: list[int] | None) -> Events:
        """Events that were decoded, and where they stood among `n` (everywhere, if None)."""
        where = None if good is None else np.array(good, np.int64)
        found, odd = self._scores(decoded)
        times = None
        if self._fields.time is not None:
            times, untimely = _times([event.time for event in decoded])
            odd = untimely | odd
        keys = None
        if self._fields.key is not None:
            keys = list(map(str, [event.key for event in decoded]))
        for i in odd:
            found[i] = np.nan
            if times is not None:
                times[i] = 0.0
            if keys is not None:
                keys[i] = ""
        if where is None or len(where) == n:
            return Events(found, times, keys, sorted(odd.items()))
        bad = sorted([*bad, *((int(where[i]), reason) for i, reason in odd.items())])
        scores = np.full((n, len(self._classes)), np.nan)
        scores[where] = found
        if times is not None:
            times, some = np.zeros(n), times
            times[where] = some
        if keys is not None:
            named = dict(zip(where.tolist(), keys, strict=True))
            keys = [named.get(place, "") for place in range(n)]
        return Events(scores, times, keys, bad)

    def _scores(self, decoded: list[Any]) -> tuple[NDArray[np.float64], dict[int, str]]:
        """Scores as a matrix, and why some lines of it are none."""
        m = len(self._classes)
        if self._fields.scores is None:
            lists = list(map(msgspec.structs.astuple, decoded))
            matrix = np.array([line[:m] for line in lists], np.float64).reshape(-1, m)
            return matrix, {}
        scores = [event.scores for event in decoded]
        if set(map(type, scores)) <= {tuple}:
            flat = np.fromiter(chain.from_iterable(scores), np.float64, len(scores) * m)
            return flat.reshape(-1, m), {}
        matrix = np.full((len(scores), m), np.nan)
        named = [i for i, line in enumerate(scores) if isinstance(line, dict)]
        listed = [i for i, line in enumerate(scores) if not isinstance(line, dict)]
        if listed:
            matrix[listed] = [scores[i] for i in listed]
        filled, odd = self._by_name([scores[i] for i in named])
        matrix[named] = filled
        return matrix, {named[i]: reason for i, reason in odd.items()}

    def _by_name(self, lines: list[dict[str, float]]) -> tuple[NDArray[np.float64], dict[int, str]]:
        """Scores by class name; classes left out share what is left of the mass."""
        column = self._column
        odd: dict[int, str] = {}
        try:
            columns = np.fromiter(map(column.__getitem__, chain.from_iterable(lines)), np.int64)
        except KeyError:
            for i, line in enumerate(lines):
                unknown = [name for name in line if name not in column]
                if unknown:
                    odd[i] = f"class {unknown[0]!r} is unknown; the classes are {self._known()}"
            lines = [{} if i in odd else line for i, line in enumerate(lines)]
            columns = np.fromiter(map(column.__getitem__, chain.from_iterable(lines)), np.int64)
        lengths = np.fromiter(map(len, lines), np.int64, len(lines))
        values = np.fromiter(
            chain.from_iterable(line.values() for line in lines), np.float64, len(columns)
        )
        matrix = np.full((len(lines), len(self._classes)), np.nan)
        matrix[np.repeat(np.arange(len(lines)), lengths), columns] = values
        absent = np.isnan(matrix)
        some = np.flatnonzero(lengths < len(self._classes))
        lacking = some if self._logits else np.flatnonzero(lengths == 0)
        for i in lacking.tolist():
            odd.setdefault(i, self._incomplete(lines[i]))
        if not self._logits and len(some):
            rest = np.maximum(0.0, 1.0 - np.nansum(matrix[some], axis=1))
            share = np.where(absent[some], self._prior, 0.0)
            share *= (rest / share.sum(axis=1))[:, None]
            matrix[some] = np.where(absent[some], share, matrix[some])
        return matrix, odd

    def _incomplete(self, line: dict[str, float]) -> str:
        if not line:
            return f"no scores; give those of {self._known()}"
        missing = next(name for name in self._classes if name not in line)
        return (
            f"class {missing!r} is missing; give all of {self._known()}, "
            "for classes may be left out of probabilities only"
        )

    def _known(self) -> str:
        more = ", …" if len(self._classes) > 10 else ""
        return ", ".join(self._classes[:10]) + more


def decode_float32(messages: Sequence[bytes], classes: int) -> Events:
    """One event from each message that is a row of little-endian float32."""
    size = 4 * classes
    bad = [
        (place, f"{len(message)} bytes, not the {size} of {classes} float32 scores")
        for place, message in enumerate(messages)
        if len(message) != size
    ]
    if not bad:
        return Events(float32_rows(b"".join(messages), classes), None, None, [])
    blank = np.full(classes, np.nan, "<f4").tobytes()
    whole = b"".join(each if len(each) == size else blank for each in messages)
    return Events(float32_rows(whole, classes), None, None, bad)


def float32_rows(block: bytes, classes: int) -> NDArray[np.float32]:
    """Rows of little-endian float32, one after the other."""
    return np.frombuffer(block, "<f4").reshape(-1, classes).astype(np.float32)


def encode_update(update: Update, model: str | None = None) -> bytes:
    """An update's JSON, in one line; docs/update.schema.json says what is in it."""
    named = {} if model is None else {"model": model}
    return msgspec.json.encode({**update.to_dict(), **named})


@dataclass(frozen=True)
class DeadLetter:
    """What could not be used: its bytes as they came, why, and where it stood.

    Examples
    --------
    >>> from stream_leip_connectors.events import DeadLetter
    >>> DeadLetter(b"{", "not JSON: Input data was truncated", {"line": 7}).encode()
    b'{"schema":1,"line":7,"reason":"not JSON: Input data was truncated","text":"{"}'
    """

    original: bytes
    reason: str
    where: dict[str, Any]

    def encode(self) -> bytes:
        """One line of JSON: the bytes under `text`, or under `base64` if they are not UTF-8."""
        try:
            original = {"text": self.original.decode()}
        except UnicodeDecodeError:
            original = {"base64": base64.b64encode(self.original).decode()}
        return msgspec.json.encode(
            {"schema": DEAD_LETTER_SCHEMA, **self.where, "reason": self.reason, **original}
        )


def _event_type(classes: tuple[str, ...], fields: Fields) -> type[msgspec.Struct]:
    row: Any = tuple.__class_getitem__((float,) * len(classes))
    wanted: list[tuple[str, Any, Any]] = []
    if fields.scores is None:
        wanted += [(f"c{j}", float, name) for j, name in enumerate(classes)]
    else:
        wanted.append(("scores", row | dict[str, float], fields.scores))
    if fields.time is not None:
        zoned = Annotated[datetime, msgspec.Meta(tz=True)]
        wanted.append(("time", float | zoned, fields.time))
    if fields.key is not None:
        wanted.append(("key", str | int, fields.key))
    names = [name for *_, name in wanted]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"fields: {twice[0]!r} is asked for twice; name different fields")
    made: Callable[..., type[msgspec.Struct]] = msgspec.defstruct
    return made(
        "Event", [(name, kind, msgspec.field(name=given)) for name, kind, given in wanted], gc=False
    )


def _times(given: list[float | datetime]) -> tuple[Vector, dict[int, str]]:
    """Epoch seconds, and why some are none."""
    seconds = screen_times(given, len(given))
    odd: dict[int, str] = {}
    for i in np.flatnonzero(np.isnan(seconds)):
        try:
            epoch_seconds(given[i])
        except InputError as error:
            odd[int(i)] = str(error)
    return seconds, odd


def _check_utf8(message: bytes) -> None:
    """Refuse other bytes: the decoder does not look into fields that it skips."""
    if not message.isascii():
        message.decode()


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: {error.reason} (byte {error.start})"
    if isinstance(error, msgspec.ValidationError):
        return f"not an event: {error}"
    if isinstance(error, RecursionError):
        return "not JSON: nested too deep"
    return f"not JSON: {str(error).removeprefix('JSON is malformed: ')}"
