"""Records of a topic to arrays: one pass over a poll's batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_leip import InputError, SourceProfile
from stream_leip.arrays import Vector
from stream_leip.entrance import Batch
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
from stream_leip_connectors.kafka.records import Headers, Records, last_header

DEFAULT_FIELDS = Fields()


class Decoded(NamedTuple):
    """Records as events that came through the gate.

    Parameters
    ----------
    batch
        An event for each record.
    keys
        Of each event, bad ones included; None if all are one stream.
    bad
        Which records are no events that can be used, and why, in order.
    keyless
        Those of the bad ones whose key is not known.
    """

    batch: Batch
    keys: list[str] | None
    bad: list[Bad]
    keyless: list[int]

    def known(self) -> tuple[list[str] | None, Batch]:
        """Keys and events, but for those whose key is not known."""
        keys, batch = self.keys, self.batch
        if keys is None or not self.keyless:
            return keys, batch
        known = np.delete(np.arange(batch.n), self.keyless)
        places = np.searchsorted(known, batch.places)
        return [keys[i] for i in known], batch._replace(places=places, n=len(known))


class RecordDecoder:
    """Turns records into rows, with the reason for each that is no event.

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
    >>> import numpy as np
    >>> from stream_leip import fit_profile
    >>> from stream_leip_connectors.kafka.decoding import RecordDecoder
    >>> from stream_leip_connectors.kafka.records import Records
    >>> labels = np.arange(60) % 2
    >>> scores = np.where(np.eye(2)[labels] > 0, 0.8, 0.2)
    >>> profile = fit_profile(scores, labels, ["cat", "dog"], kind="probabilities")
    >>> values = [b'{"scores": [0.75, 0.25]}'] * 2
    >>> records = Records("predictions", 0, [7, 8], [1500, 1500], [b"a", None], values)
    >>> decoded = RecordDecoder(profile).decode(records)
    >>> decoded.keys, decoded.batch.times
    (['a', ''], array([1.5]))
    >>> decoded.bad
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

    def decode(self, records: Records) -> Decoded:
        """The events of the records, in their order; `bad` has all that cannot be used."""
        scores, times, keys, bad = self._events(records)
        n = len(scores)
        places = np.delete(np.arange(n), [place for place, _ in bad])
        rows, refused = self._profile.screen(scores[places] if bad else scores)
        if refused:
            bad = sorted([*bad, *((int(places[i]), reason) for i, reason in refused)])
            places = np.delete(places, [i for i, _ in refused])
        if times is not None and bad:
            times = times[places]
        keyless: list[int] = []
        if keys is not None:
            # Of a bad event an empty key is unknown, unless it is the message's.
            keyless = [i for i, _ in bad if not keys[i] and records.keys[i] != b""]
        return Decoded(Batch(rows, times, places, n), keys, bad, keyless)

    def _events(self, records: Records) -> Events:
        json, rows, others = self._sort(records)
        if len(json) == len(records):
            return self._from_json(records)
        if len(rows) == len(records):
            return self._from_rows(records)
        parts = [
            (json, self._from_json(records.some(json))),
            (rows, self._from_rows(records.some(rows))),
        ]
        return self._joined(records, parts, others)

    def _sort(self, records: Records) -> tuple[Sequence[int], Sequence[int], list[Bad]]:
        """Where JSON is, where rows of float32 are, and what is neither."""
        everywhere = range(len(records))
        values = records.values
        headers = records.headers or [()] * len(values)
        kinds = {each: _content_type(each, self._type) for each in set(headers)}
        if None not in values and len(set(kinds.values())) == 1:
            (kind,) = set(kinds.values())
            if kind in (JSON, FLOAT32):
                return (everywhere, [], []) if kind == JSON else ([], everywhere, [])
        types = [kinds[each] for each in headers]
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

    def _from_json(self, records: Records) -> Events:
        fields = self._fields
        values: list[Any] = records.values
        return _with_messages(
            self._json.decode(values),
            records,
            key=self._keyed and fields.key is None,
            time=self._timed and fields.time is None,
        )

    def _from_rows(self, records: Records) -> Events:
        values: list[Any] = records.values
        events = decode_float32(values, len(self._profile.classes))
        return _with_messages(events, records, key=self._keyed, time=self._timed)

    def _joined(
        self, records: Records, parts: list[tuple[Sequence[int], Events]], others: list[Bad]
    ) -> Events:
        """Parts of a batch, each put where it stood."""
        n = len(records)
        scores = np.full((n, len(self._profile.classes)), np.nan)
        times = np.zeros(n) if self._timed else None
        keys = None
        if self._keyed:
            keys = _message_keys(records.keys)[0] if self._fields.key is None else [""] * n
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
        return Events(scores, times, keys, sorted(bad))


def _content_type(headers: Headers, default: str) -> str:
    """What a record's value is; without parameters such as a charset."""
    given = last_header(headers, "content-type") if headers else None
    if given is None:
        return default
    return given.decode(errors="replace").partition(";")[0].strip().lower()


def _with_messages(events: Events, records: Records, *, key: bool, time: bool) -> Events:
    """Events, with key and time of the messages they came in where that is asked for."""
    scores, times, keys, bad = events
    odd: dict[int, str] = {}
    if key:
        keys, odd = _message_keys(records.keys)
    if time:
        times, untimely = _message_times(records.timestamps)
        odd = untimely | odd
    if odd:
        bad = sorted((odd | dict(bad)).items())
    return Events(scores, times, keys, bad)


def _message_keys(given: list[bytes | None]) -> tuple[list[str], dict[int, str]]:
    """Keys as text, and why some are none."""
    names: dict[bytes | None, str] = {}
    reasons: dict[bytes | None, str] = {}
    for key in set(given):  # mostly few
        try:
            names[key] = "" if key is None else key.decode()
        except UnicodeDecodeError as error:
            names[key] = ""
            reasons[key] = f"message key: not UTF-8: {error.reason} (byte {error.start})"
    if None in names:
        reasons[None] = "no message key; produce with one, or name the field that holds the key"
    odd = {i: reasons[key] for i, key in enumerate(given) if key in reasons} if reasons else {}
    return [names[key] for key in given], odd


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
