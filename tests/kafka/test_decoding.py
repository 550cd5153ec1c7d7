"""Records to arrays, against a slow decoder of one record at a time."""

import struct
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_leip_connectors.events import FLOAT32, JSON, Fields
from stream_leip_connectors.kafka.decoding import Decoded, RecordDecoder
from stream_leip_connectors.kafka.records import Records

from stream_leip import InputError
from tests.test_events import FIELDS, PROFILE, M, plain, slowly, some_lines
from tests.test_fuzzed_file import fuzz, is_row


class Given(NamedTuple):
    value: bytes | None
    key: bytes | None = b"k"
    timestamp: int = 1_700_000_000_500
    headers: Any = ()
    topic: str = "predictions"
    partition: int = 0
    offset: int = 0


RAW = [("content-type", FLOAT32.encode())]


def slow_value(record: Given, fields: Fields, default: str) -> tuple[Any, Any, Any] | None:
    """Scores, time and key by what the value alone says; None if it is no event."""
    kinds = [value for name, value in record.headers if name == "content-type"]
    kind = default if not kinds or kinds[-1] is None else kinds[-1].decode(errors="replace")
    if record.value is None:
        return None
    if kind == FLOAT32:
        if len(record.value) != 4 * M:
            return None
        return list(struct.unpack(f"<{M}f", record.value)), "message", "message"
    if kind.split(";")[0].strip().lower() != JSON:
        return None
    return slowly(record.value, fields, "probabilities")


def slow(
    record: Given, fields: Fields, message_key: bool, message_time: bool, default: str
) -> tuple[Any, Any, Any] | None:
    event = slow_value(record, fields, default)
    if event is None or not np.isfinite(event[0]).all() or not is_row(event[0]):
        return None
    row, time, key = event
    if (message_time and time is None) or time == "message":
        if (message_time or fields.time) and not 0 <= record.timestamp / 1000 < 1e11:
            return None
        time = record.timestamp / 1000
    if (message_key and key is None) or key == "message":
        try:
            key = record.key.decode()  # type: ignore[union-attr]
        except (AttributeError, UnicodeDecodeError):
            if message_key or fields.key:
                return None
    return row, time, key


def check(decoded: Decoded, records: list[Given], *how: Any) -> None:
    bad = dict(decoded.bad)
    batch = decoded.batch
    assert batch.n == len(records)
    rows = dict(zip(batch.places.tolist(), range(len(batch.rows)), strict=True))
    for place, record in enumerate(records):
        wanted = slow(record, *how)
        if wanted is None:
            assert bad.pop(place)
            assert place not in rows
            check_key(decoded, place, record, *how)
            continue
        assert place not in bad, (record, bad[place])
        row = rows.pop(place)
        np.testing.assert_allclose(batch.rows[row], PROFILE.rows([wanted[0]])[0], rtol=1e-6)
        if batch.times is not None:
            assert batch.times[row] == wanted[1]
        if decoded.keys is not None:
            assert decoded.keys[place] == wanted[2]
    assert not bad
    assert not rows


def check_key(decoded: Decoded, place: int, record: Given, fields: Fields, *_: Any) -> None:
    """The key of a bad event, where that is the message's."""
    if decoded.keys is None:
        assert not decoded.keyless
        return
    if fields.key is None:
        try:
            key = record.key.decode()  # type: ignore[union-attr]
        except (AttributeError, UnicodeDecodeError):
            assert place in decoded.keyless
        else:
            assert decoded.keys[place] == key
            assert place not in decoded.keyless
    assert place in decoded.keyless or decoded.keys[place] or record.key == b""


shares = st.lists(st.integers(0, 9), min_size=M, max_size=M).filter(any)
rows = shares.map(lambda each: (np.array(each, "<f4") / sum(each)).astype("<f4").tobytes())
values = st.one_of(
    st.none(),
    st.binary(max_size=13),
    st.binary(min_size=4 * M, max_size=4 * M),
    rows,
    some_lines.map(lambda x: (x or [b""])[0]),
)
headers = st.sampled_from(
    [
        [],
        RAW,
        [("content-type", b"Application/JSON; charset=utf-8"), ("trace", None)],
        [("content-type", b"text/plain")],
        [("content-type", b"\xff")],
        [("content-type", None)],
        [*RAW, ("content-type", b"application/json")],
    ]
)
records = st.builds(
    Given,
    values,
    st.sampled_from([None, b"", b"a", "ä".encode(), b"\xff"]),
    st.sampled_from([-1, 0, 1_700_000_000_123, 2**62]),
    headers,
)


@settings(max_examples=250)
@given(
    st.lists(records, min_size=1, max_size=8),
    st.sampled_from([FIELDS, Fields(), Fields(time="time"), Fields(key="key")]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([JSON, FLOAT32]),
)
def test_any_records_decode_as_the_slow_way_says(
    given_: list[Given], fields: Fields, key: bool, time: bool, kind: str
) -> None:
    decoder = RecordDecoder(PROFILE, fields, message_key=key, message_time=time, content_type=kind)
    events = decoder.decode(Records.of(given_))
    assert (events.keys is not None) == (key or fields.key is not None)
    assert (events.batch.times is not None) == (time or fields.time is not None)
    keys, batch = events.known()
    if keys is not None:
        assert batch.n == len(keys) == len(given_) - len(events.keyless)
        all_keys = events.keys or []
        assert [keys[i] for i in batch.places] == [all_keys[i] for i in events.batch.places]
    check(events, given_, fields, key, time, kind)


def test_rows_of_float32() -> None:
    raw = np.array([0.5, 0.25, 0.25], "<f4")
    events = RecordDecoder(PROFILE).decode(Records.of([Given(raw.tobytes(), headers=RAW)] * 3))
    np.testing.assert_array_equal(events.batch.rows, PROFILE.rows(np.stack([raw] * 3)))
    assert not events.bad


def test_a_nan_that_signals() -> None:
    raw = bytes.fromhex("0100807f") + np.array([0.5, 0.5], "<f4").tobytes()
    good = Given(plain({"scores": [0.5, 0.5, 0.0]}))
    for records in ([Given(raw, headers=RAW)], [good, Given(raw, headers=RAW)]):
        (bad,) = RecordDecoder(PROFILE).decode(Records.of(records)).bad
        assert bad == (
            len(records) - 1,
            "the score of class 'c0' is nan; drop the row, or mend the classifier",
        )


def test_an_empty_poll() -> None:
    events = RecordDecoder(PROFILE).decode(Records("predictions", 0, [], [], [], []))
    assert events.batch.rows.shape == (0, M)
    assert (events.keys, events.bad) == ([], [])


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (Given(None), "no value; a tombstone is no event"),
        (
            Given(b"{", headers=[("content-type", b"text/csv")]),
            "content-type 'text/csv' is unknown",
        ),
        (Given(b"123", headers=RAW), "3 bytes, not the 12 of 3 float32 scores"),
        (Given(b'{"scores": [1, 0, 0]}', key=None), "no message key; produce with one"),
        (Given(b'{"scores": [1, 0, 0]}', key=b"\xff"), "message key: not UTF-8"),
        (Given(b'{"scores": [1, 0, 0]}', timestamp=-1), "message timestamp: -1 is no epoch"),
        (Given(b'{"scores": [1, 1, 0]}'), "the probabilities sum to 2, not 1"),
        (Given(b'{"scores": [1, 0, 0]'), "not JSON: Input data was truncated"),
    ],
)
def test_reasons(record: Given, reason: str) -> None:
    good = Given(plain({"scores": [0.5, 0.5, 0.0]}))
    events = RecordDecoder(PROFILE).decode(Records.of([good, record, good]))
    assert [place for place, _ in events.bad] == [1]
    assert events.bad[0][1].startswith(reason)


def test_an_unknown_default_content_type() -> None:
    with pytest.raises(InputError, match=r"content_type: 'avro' is unknown; use application/json"):
        RecordDecoder(PROFILE, content_type="avro")


def test_100_000_fuzzed_records_among_good_ones() -> None:
    rng = np.random.default_rng(0)
    good = [
        plain({"id": i, "scores": row})
        for i, row in enumerate(rng.dirichlet([0.4] * M, 50_000).tolist())
    ]
    spoilt = [fuzz(good[i], rng) for i in rng.integers(len(good), size=100_000)]
    lines = [*good, *spoilt]
    order = rng.permutation(len(lines))
    decoder = RecordDecoder(PROFILE)
    seen = 0
    for begin in range(0, len(lines), 10_000):
        batch = [Given(lines[i], offset=int(i)) for i in order[begin : begin + 10_000]]
        events = decoder.decode(Records.of(batch))
        seen += len(events.bad)
        check(events, batch, Fields(), True, True, JSON)
    assert 80_000 < seen < 100_000
