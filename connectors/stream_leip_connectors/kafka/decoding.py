"""Records of a topic to arrays: one pass over a poll's batch."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from stream_leip import InputError, SourceProfile
from stream_leip.arrays import Vector
from stream_leip.times import screen_times
from stream_leip_connectors.events import (
    FLOAT32,
    JSON,
    Bad,
    EventDecoder,
    Events,
    Fields,
    decode_float32,
)
from stream_leip_connectors.kafka.records import Headers, Record, last_header

DEFAULT_FIELDS = Fields()

_VALUE, _KEY, _HEADERS = attrgetter("value"), attrgetter("key"), attrgetter("headers")
_TIMESTAMP = attrgetter("timestamp")


class RecordDecoder:
    """Turns records into arrays, with the reason for each that is no event.

    A record's value is JSON or a row of float32, by its header `content-type`. Rows of float32 have
    no fields: theirs are the message's key and timestamp.

    Parameters
    ----------
    profile
        Names the classes, and says which scores can be used.
    fields
        Which field of a JSON event holds what.
    message_key
        Take the message's key, where `fields` names none for the key. If neither, all events are
        one stream.
    message_time
        Take the message's timestamp, where `fields` names none for the time.
    content_type
        Of records that have no such header.

    Examples
    --------
    >>> from types import SimpleNamespace as record
    >>> import numpy as np
    >>> from stream_leip import fit_profile
    >>> from stream_leip_connectors.kafka.decoding import RecordDecoder
    >>> labels = np.arange(60) % 2
    >>> scores = np.where(np.eye(2)[labels] > 0, 0.8, 0.2)
    >>> profile = fit_profile(scores, labels, ["cat", "dog"], kind="probabilities")
    >>> good = record(key=b"a", value=b'{"scores": [0.75, 0.25]}', headers=[], timestamp=1500)
    >>> bad = record(key=None, value=b'{"scores": [0.75, 0.25]}', headers=[], timestamp=1500)
    >>> events = RecordDecoder(profile).decode([good, bad])
    >>> events.keys, events.times
    (['a', ''], array([1.5, 0. ]))
    >>> events.bad
    [(1, 'no message key; produce with one, or name the field that holds the key')]
    """

    def __init__(
        self,
        profile: SourceProfile,
        fields: Fields = DEFAULT_FIELDS,
        *,
        message_key: bool = True,
        message_time: bool = True,
        content_type: str = JSON,
    ) -> None:
        if content_type not in (JSON, FLOAT32):
            raise InputError(f"content_type: {content_type!r} is unknown; use {JSON} or {FLOAT32}")
        self._profile = profile
        self._fields = fields
        self._keyed = message_key or fields.key is not None
        self._timed = message_time or fields.time is not None
        self._type = content_type
        self._json = EventDecoder(profile, fields)

    def decode(self, records: Sequence[Record]) -> Events:
        """The events of the records, in their order; `bad` has all that cannot be used."""
        values = list(map(_VALUE, records))
        json, rows, others = self._sort(records, values)
        if len(json) == len(records):
            return self._screened(self._from_json(records, values))
        if len(rows) == len(records):
            return self._screened(self._from_rows(records, values))
        parts = [
            (json, self._from_json([records[i] for i in json], [values[i] for i in json])),
            (rows, self._from_rows([records[i] for i in rows], [values[i] for i in rows])),
        ]
        return self._screened(self._joined(len(records), parts, others))

    def _sort(
        self, records: Sequence[Record], values: list[bytes | None]
    ) -> tuple[Sequence[int], Sequence[int], list[Bad]]:
        """Where JSON is, where rows of float32 are, and what is neither."""
        everywhere = range(len(records))
        headers = list(map(_HEADERS, records))
        if not any(headers) and None not in values:
            return (everywhere, [], []) if self._type == JSON else ([], everywhere, [])
        types = [_content_type(each, self._type) for each in headers]
        json: list[int] = []
        rows: list[int] = []
        others: list[Bad] = []
        for place, (kind, value) in enumerate(zip(types, values, strict=True)):
            if value is None:
                others.append((place, "no value; a tombstone is no event"))
            elif kind == JSON:
                json.append(place)
            elif kind == FLOAT32:
                rows.append(place)
            else:
                others.append((place, f"content-type {kind!r} is unknown; use {JSON} or {FLOAT32}"))
        return json, rows, others

    def _from_json(self, records: Sequence[Record], values: list[Any]) -> Events:
        fields = self._fields
        return _with_messages(
            self._json.decode(values),
            records,
            key=self._keyed and fields.key is None,
            time=self._timed and fields.time is None,
        )

    def _from_rows(self, records: Sequence[Record], values: list[Any]) -> Events:
        events = decode_float32(values, len(self._profile.classes))
        return _with_messages(events, records, key=self._keyed, time=self._timed)

    def _joined(
        self, n: int, parts: list[tuple[Sequence[int], Events]], others: list[Bad]
    ) -> Events:
        """Parts of a batch, each put where it stood."""
        scores = np.full((n, len(self._profile.classes)), np.nan)
        times = np.zeros(n) if self._timed else None
        keys = [""] * n if self._keyed else None
        bad = others
        for places, events in parts:
            with np.errstate(invalid="ignore"):  # four bytes may be a NaN that signals
                scores[places] = events.scores
            if times is not None:
                times[places] = events.times
            if keys is not None:
                for place, key in zip(places, events.keys or [], strict=True):
                    keys[place] = key
            bad = [*bad, *((places[i], reason) for i, reason in events.bad)]
        return Events(scores, times, keys, bad)

    def _screened(self, events: Events) -> Events:
        """The same events, those among the bad that no monitor would take."""
        scores, times, keys, bad = events
        good = np.delete(np.arange(len(scores)), [place for place, _ in bad])
        _, refused = self._profile.screen(scores[good] if bad else scores)
        bad = sorted([*bad, *((int(good[i]), reason) for i, reason in refused)])
        for place, _ in bad:
            scores[place] = np.nan
            if times is not None:
                times[place] = 0.0
            if keys is not None:
                keys[place] = ""
        return Events(scores, times, keys, bad)


def _content_type(headers: Headers, default: str) -> str:
    """What a record's value is; without parameters such as a charset."""
    given = last_header(headers, "content-type") if headers else None
    if given is None:
        return default
    return given.decode(errors="replace").partition(";")[0].strip().lower()


def _with_messages(events: Events, records: Sequence[Record], *, key: bool, time: bool) -> Events:
    """Events, with key and time of the messages they came in where that is asked for."""
    scores, times, keys, bad = events
    odd: dict[int, str] = {}
    if key:
        keys, odd = _message_keys(list(map(_KEY, records)))
    if time:
        times, untimely = _message_times(list(map(_TIMESTAMP, records)))
        odd = untimely | odd
    if odd:
        bad = sorted((odd | dict(bad)).items())
    return Events(scores, times, keys, bad)


def _message_keys(given: list[bytes | None]) -> tuple[list[str], dict[int, str]]:
    """Keys as text, and why some are none."""
    try:
        return [str(key, "utf-8") for key in given], {}  # type: ignore[arg-type]  # None raises
    except (TypeError, UnicodeDecodeError):
        keys, odd = [""] * len(given), {}
    for place, key in enumerate(given):
        if key is None:
            odd[place] = "no message key; produce with one, or name the field that holds the key"
            continue
        try:
            keys[place] = key.decode()
        except UnicodeDecodeError as error:
            odd[place] = f"message key: not UTF-8: {error.reason} (byte {error.start})"
    return keys, odd


def _message_times(given: list[int]) -> tuple[Vector, dict[int, str]]:
    """Timestamps in epoch seconds, and why some are none."""
    milliseconds = np.array(given, np.float64)
    seconds = screen_times(milliseconds / 1000.0, len(given))
    # Kafka has no times before 1970: it says -1 where there is none.
    odd = {
        int(place): f"message timestamp: {given[place]} is no epoch milliseconds"
        for place in np.flatnonzero(np.isnan(seconds) | (milliseconds < 0))
    }
    return seconds, odd
