"""The wire, against a slow decoder of the standard library."""

import base64
import json
import math
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from stream_leip_connectors.events import (
    DeadLetter,
    EventDecoder,
    Events,
    Fields,
    decode_float32,
    encode_update,
)

from stream_leip import InputError, Monitor, SourceProfile, Tumbling
from tests.strategies import make_profile

M = 3
PRIOR = np.array([0.5, 0.3, 0.2])
PROFILE = make_profile(PRIOR)  # of probabilities; classes c0, c1, c2
FIELDS = Fields("scores", "time", "key")


def logits_profile() -> SourceProfile:
    probabilities = make_profile(PRIOR)
    return SourceProfile(
        probabilities.classes,
        "logits",
        probabilities.calibrator,
        probabilities.validation,
        probabilities.replay,
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def forbid(text: str) -> Any:
    raise ValueError(text)


class NoEventError(Exception):
    pass


def slow_row(scores: Any, kind: str) -> list[float]:
    if isinstance(scores, list) and len(scores) == M and all(map(is_number, scores)):
        return [float(value) for value in scores]
    if not (isinstance(scores, dict) and scores and scores.keys() <= set(PROFILE.classes)):
        raise NoEventError
    absent = [j for j, name in enumerate(PROFILE.classes) if name not in scores]
    if not all(map(is_number, scores.values())) or (absent and kind == "logits"):
        raise NoEventError
    rest = max(0.0, 1.0 - sum(scores.values()))
    shares = sum(PRIOR[j] for j in absent)
    return [
        float(scores[name]) if name in scores else rest * PRIOR[j] / shares
        for j, name in enumerate(PROFILE.classes)
    ]


def slow_time(time: Any) -> float:
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            raise NoEventError from None
        if moment.tzinfo is None:
            raise NoEventError
        time = moment.timestamp()
    if not is_number(time) or not -6.2e10 < time < 1e11:
        raise NoEventError
    return float(time)


def slow_key(key: Any) -> str:
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise NoEventError
    return str(key)


def slowly(line: bytes, fields: Fields, kind: str) -> tuple[list[float], Any, Any] | None:
    """One event by the words of docs/wire.md; None if the line is none."""
    try:
        event = json.loads(line.decode(), parse_constant=forbid)
        if not isinstance(event, dict):
            return None
        row = slow_row(event.get("scores"), kind)
        time = None if fields.time is None else slow_time(event.get("time"))
        key = None if fields.key is None else slow_key(event.get("key"))
    except (ValueError, RecursionError, NoEventError):
        return None
    return (row, time, key) if all(map(math.isfinite, row)) else None


def check(events: Events, lines: list[bytes], fields: Fields, kind: str) -> None:
    assert len(events.scores) == len(lines)
    bad = dict(events.bad)
    for place, line in enumerate(lines):
        wanted = slowly(line, fields, kind)
        if wanted is None:
            assert bad.pop(place)
            assert np.isnan(events.scores[place]).all()
            continue
        row, time, key = wanted
        assert place not in bad, (line, bad[place])
        np.testing.assert_allclose(events.scores[place], row, rtol=1e-12)
        if events.times is not None:
            assert events.times[place] == time
        if events.keys is not None:
            assert events.keys[place] == key
    assert not bad


numbers = st.one_of(st.floats(-1, 2), st.integers(-2, 2))
names = st.sampled_from(["c0", "c1", "c2"])
score_values = st.one_of(
    st.lists(numbers, min_size=M, max_size=M),
    st.dictionaries(names, st.floats(0, 0.5)),
    st.lists(st.one_of(numbers, st.none(), st.text(max_size=3), st.booleans()), max_size=4),
    st.dictionaries(st.one_of(names, st.text(max_size=3)), numbers),
    st.none(),
)
times = st.one_of(
    st.floats(1e9, 2e9),
    st.integers(0, 2**40),
    st.sampled_from(["2026-01-05T08:00:00Z", "2026-01-05T08:00:00.25+02:00", "2026-01-05T08:00"]),
    st.none(),
)
keys = st.one_of(st.text(max_size=4), st.integers(-5, 5), st.none(), st.booleans())
objects = st.fixed_dictionaries({"scores": score_values}, optional={"time": times, "key": keys})
good = st.fixed_dictionaries(
    {
        "scores": st.lists(numbers, min_size=M, max_size=M),
        "time": st.floats(1e9, 2e9),
        "key": st.text(max_size=3),
    }
)


def plain(event: Any) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "surrogatepass")


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A good line with some bytes changed, cut out or put in."""
    line = bytearray(plain(draw(good)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(line)))
        put = draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"{", b"}", b'"', b"]", b","]))
        )
        line[place : place + draw(st.integers(0, 4))] = put
    return bytes(line).replace(b"\n", b"").replace(b"\r", b"")


some_lines = st.lists(
    st.one_of(good.map(plain), objects.map(plain), spoilt(), st.binary(max_size=9))
)


@settings(max_examples=400)
@given(
    some_lines, st.sampled_from([FIELDS, Fields()]), st.sampled_from(["logits", "probabilities"])
)
def test_any_messages_decode_as_the_slow_way_says(
    lines: list[bytes], fields: Fields, kind: str
) -> None:
    profile = PROFILE if kind == "probabilities" else logits_profile()
    check(EventDecoder(profile, fields).decode(lines), lines, fields, kind)


@settings(max_examples=400)
@given(some_lines, st.booleans())
def test_a_block_is_its_lines_one_by_one(lines: list[bytes], ended: bool) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    block = b"\n".join(lines) + (b"\n" if ended else b"")
    decoder = EventDecoder(PROFILE, FIELDS)
    events, numbers = decoder.decode_lines(block)
    filled = [i for i, line in enumerate(lines) if line and not line.isspace()]
    assert numbers.tolist() == filled
    check(events, [lines[i] for i in filled], FIELDS, "probabilities")


GOOD = b'{"scores": [0.5, 0.3, 0.2]}'
LIST = b'{"scores": [0.5, 0.3, 0.2], "more": [{}'


@pytest.mark.parametrize(
    "lines",
    [
        # Two events in one line, and one event over two: as many events as lines.
        [GOOD + GOOD, b'{"scores": [0.5,', b"0.3, 0.2]}"],
        [GOOD + b" " + GOOD, LIST, b"{}]}"],
        [GOOD + b"," + GOOD, LIST, b",{}]}"],
        [GOOD + GOOD, b'{"scores": [0.5, 0.3, 0.2], "id": "}', b'{"}'],
        [GOOD + GOOD, b'{"a": {}', b'{"scores": [0.5, 0.3, 0.2]}}'],
        [GOOD + b"]", b"[" + GOOD],
        [b"", GOOD, b"  ", GOOD],
        [GOOD + b"\r", GOOD + b"\r"],
    ],
)
def test_lines_cannot_trade_events(lines: list[bytes]) -> None:
    events, numbers = EventDecoder(PROFILE).decode_lines(b"\n".join(lines))
    filled = [line for line in lines if line.strip()]
    check(events, filled, Fields(), "probabilities")
    assert len(numbers) == len(filled)


@given(st.lists(st.binary(max_size=30)))
@example([b"{" * 100_000, b'{"a":' * 100_000])
@example([b'{"scores": [1e999, 0, 0]}', b'{"scores": [' + b"9" * 5000 + b", 0, 0]}"])
@example([b'{"scores": [1, 0, 0], "key": ' + b"9" * 5000 + b', "time": 1}'])
@example([b'{"scores": [1, 0, 0], "key": "\\ud800", "time": 1}'])
def test_no_bytes_break_the_decoder(messages: list[bytes]) -> None:
    events = EventDecoder(PROFILE, FIELDS).decode(messages)
    assert len(events.scores) == len(messages)
    for key in events.keys or ():
        key.encode()


def test_a_field_for_each_class() -> None:
    decoder = EventDecoder(PROFILE, Fields(None, "at", None))
    events = decoder.decode([b'{"c1": 0.2, "c0": 0.7, "c2": 0.1, "at": 5}', b'{"c0": 1, "at": 5}'])
    assert events.scores[0].tolist() == [0.7, 0.2, 0.1]
    assert events.bad[0][0] == 1
    assert "missing required field `c1`" in events.bad[0][1]


def test_top_classes_leave_the_rest_to_the_source_prior() -> None:
    line = b'{"scores": {"c1": 0.4}}'
    (row,) = EventDecoder(PROFILE).decode([line]).scores
    assert row == pytest.approx([0.6 * 0.5 / 0.7, 0.4, 0.6 * 0.2 / 0.7])
    ((_, reason),) = EventDecoder(logits_profile()).decode([line]).bad
    assert "class 'c0' is missing" in reason
    assert "probabilities only" in reason


def test_a_field_asked_for_twice_is_refused() -> None:
    with pytest.raises(InputError, match="'x' is asked for twice"):
        EventDecoder(PROFILE, Fields("x", "x", None))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON: Input data was truncated"),
        (b"[1]", "not an event: Expected `object`, got `array`"),
        (b'{"scores": [1, 0]}', "Expected `array` of length 3 - at `$.scores`"),
        (b'{"scores": ["1", 0, 0]}', "got `str` - at `$.scores[0]`"),
        (b'{"scores": {"dog": 1}}', "class 'dog' is unknown; the classes are c0, c1, c2"),
        (b'{"scores": {}}', "no scores; give those of c0, c1, c2"),
        (b'{"score": [1, 0, 0]}', "missing required field `scores`"),
        (b'{"scores": [NaN, 0, 0]}', "not JSON"),
        (b"\xff", "not UTF-8: invalid start byte (byte 0)"),
        (b'{"scores": [1, 0, 0], "id": "\xff"}', "not UTF-8"),
    ],
)
def test_reasons_name_what_is_wrong(line: bytes, says: str) -> None:
    ((place, reason),) = EventDecoder(PROFILE).decode([line]).bad
    assert place == 0
    assert says in reason


@pytest.mark.parametrize(
    ("time", "says"),
    [
        (b'"2026-01-05T08:00:00"', "Expected"),
        (b"1700000000000", "divide milliseconds by 1000"),
        (b"null", "got `null`"),
    ],
)
def test_times_without_zone_or_in_milliseconds_are_bad(time: bytes, says: str) -> None:
    line = b'{"scores": [1, 0, 0], "time": ' + time + b"}"
    events = EventDecoder(PROFILE, Fields(time="time")).decode([line])
    assert says in events.bad[0][1]
    assert events.times is not None
    assert events.times[0] == 0.0


def test_raw_rows() -> None:
    rows = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], "<f4")
    events = decode_float32([row.tobytes() for row in rows], M)
    np.testing.assert_array_equal(events.scores, rows)
    assert events.scores.dtype == np.float32
    assert not events.bad
    events = decode_float32([rows[0].tobytes(), b"abc"], M)
    np.testing.assert_array_equal(events.scores[0], rows[0])
    assert np.isnan(events.scores[1]).all()
    assert events.bad == [(1, "3 bytes, not the 12 of 3 float32 scores")]


@given(st.binary(), st.text())
def test_dead_letters_give_back_the_original(original: bytes, reason: str) -> None:
    reason = reason.encode("utf-8", "replace").decode()
    letter = json.loads(DeadLetter(original, reason, {"source": "x", "line": 3}).encode())
    found = letter["text"].encode() if "text" in letter else base64.b64decode(letter["base64"])
    assert found == original
    assert (letter["reason"], letter["source"], letter["line"]) == (reason, "x", 3)


def test_an_update_is_one_line_of_its_dict() -> None:
    rows = np.tile([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]], (50, 1))
    (update,) = Monitor(PROFILE, Tumbling(count=100)).update_many(rows)
    line = encode_update(update)
    assert b"\n" not in line
    assert json.loads(line) == update.to_dict()
