"""Streams and what is said of them."""

import json
from typing import Any

import numpy as np
import pytest
from stream_leip_connectors.dashboard import telling
from stream_leip_connectors.dashboard.download import HEADER, as_csv
from stream_leip_connectors.dashboard.streams import Picture, Streams, settled_rate

from tests.dashboard.updates import CLASSES, encode, update


def taken(*updates: dict[str, Any]) -> Streams:
    streams = Streams()
    streams.take(encode(*updates), received=100.0)
    return streams


def pictured(streams: Streams, name: str = "estimate") -> Picture:
    number = streams.find(name)
    assert number is not None
    picture = streams.picture(number)
    assert picture is not None
    return picture


def test_the_newest_is_as_it_came() -> None:
    prior = (0.123456789012, 0.3, 0.576543210988)
    picture = pictured(taken(update(0), update(1, prior)))
    assert tuple(picture.newest.prior or ()) == prior
    assert picture.source is not None
    np.testing.assert_allclose(picture.source, np.full(3, 1 / 3))
    assert (picture.classes, picture.updates, picture.timed) == (CLASSES, 2, False)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "truncated"),
        (b"[1]", "Expected `object`"),
        (b'{"prior": [0.5, 0.5]}', "missing required field `classes`"),
        (b'{"classes": "ab"}', "Expected `array`"),
        (b'{"classes": ["a"]}', "1 different names of 1"),
        (b'{"classes": ["a", "a"]}', "1 different names of 2"),
        (b'{"classes": ["a", "b"], "prior": [1]}', "prior: 1 entries for 2 classes"),
        (b'{"classes": ["a", "b"], "high": [0.5, 1.1]}', "high: not all between 0 and 1"),
        (b'{"classes": ["a", "b"], "weights": [1]}', "weights: 1 entries for 2 classes"),
        (b'{"classes": ["a", "b"], "schema": 2}', "schema 2; this version reads 1"),
        (b'{"classes": ["a", "b"], "end": 1e999}', "out of range|not finite"),
        (b'{"classes": ["a", "b"], "prior": [0.5, 1e999]}', "out of range|between 0 and 1"),
        (b"\xff\xfe", "malformed|invalid"),
        (b"[" * 100_000, "depth|Expected"),
    ],
)
def test_what_is_no_update_is_counted_with_its_reason(line: bytes, why: str) -> None:
    import re

    streams = taken(update(0))
    streams.take([line], received=0.0)
    counts = streams.counts()
    assert (counts.updates, counts.bad) == (1, 1)
    assert re.search(why, counts.why), counts.why
    assert telling.notes(counts)[0].startswith("1 line is no update; the last: ")


def test_a_monitor_that_begins_anew_has_a_past_of_its_own() -> None:
    streams = taken(*(update(number) for number in range(10)))
    streams.take(encode(update(9)), received=0.0)  # the same again
    assert pictured(streams).updates == 10
    streams.take(encode(update(0)), received=0.0)
    assert pictured(streams).updates == 1
    streams.take(encode(update(1, classes=("x", "y", "z"))), received=0.0)
    assert pictured(streams).classes == ("x", "y", "z")
    assert streams.counts().streams == 1


def test_memory_of_all_streams_is_bounded() -> None:
    streams = Streams(most_bytes=100_000)
    for turn in range(3):
        for key in range(200):
            streams.take(encode(update(turn, key=f"k{key}")), received=0.0)
    counts = streams.counts()
    assert counts.forgotten > 0
    assert 10 < counts.streams < 200
    # The ones that spoke last are there.
    assert streams.find("k199") is not None
    assert streams.find("k0") is None
    assert "silent longest are forgotten" in telling.notes(counts)[-1]


def test_keys_with_alarms_come_first() -> None:
    streams = taken(
        update(0, key="a"),
        update(0, key="b", raised=True),
        update(0, key="c"),
        update(0, key="d", raised=True),
        update(1, key="b"),
    )
    entries, found = streams.entries()
    assert [each.name for each in entries] == ["d", "b", "a", "c"]
    assert [(each.state, each.alarms) for each in entries] == [(2, 1), (0, 1), (0, 0), (0, 0)]
    assert found == 4
    assert [each.name for each in streams.entries("B")[0]] == ["b"]
    assert streams.entries(most=2)[1] == 4


def test_words_of_an_alarm() -> None:
    quiet, raised = telling.alarm(pictured(taken(update(0)))), update(1, raised=True)
    assert (quiet["state"], quiet["said"]) == ("quiet", "The alarm was never raised.")
    told = telling.alarm(pictured(taken(update(0), raised)))
    assert told["word"] == "changed"
    assert "Last raised at event 2,000 by class cat up." in told["said"]
    assert "The last change was at about event 500." in told["said"]
    assert told["onsets"] == ["Alarm raised at event 2,000 by class cat up"]
    settled = telling.alarm(pictured(taken(update(0), raised, update(2))))
    assert settled["state"] == "settled"
    timed = telling.alarm(pictured(taken(update(0, raised=True, end=1.7e9, start=1.6e9))))
    assert "at 2023-11-14 22:13:20 UTC by class cat up" in timed["onsets"][0]
    assert telling.alarm(pictured(taken(update(0, alarm=None))))["state"] == "off"


def test_words_of_the_check_and_of_the_confident_set() -> None:
    picture = pictured(taken(update(0)))
    assert telling.check(picture)["said"] == (
        "A new class mix explains what changed. In detail: nothing odd. "
        "0 of 1 updates were flagged."
    )
    doubtful = {"p": 0.0, "flagged": True, "message": None}
    assert telling.check(pictured(taken(update(0, check=doubtful))))["word"] == "doubtful"
    assert telling.confidence(picture) == (
        "900 rows are in the confident set (90.0 %), 100 in the low-confidence buffer. "
        "Confidence counts from 0.700."
    )
    assert "Nobody" in telling.confidence(pictured(taken(update(0, confident=None))))


def test_events_a_second_by_event_time_and_by_arrival() -> None:
    timed = pictured(taken(*(update(k, end=1000.0 + 2 * k) for k in range(5))))
    assert timed.timed
    assert settled_rate(timed.past, True, now=5000.0) == pytest.approx(500.0)
    streams = Streams()
    for number in range(5):
        streams.take(encode(update(number)), received=float(number))
    past = pictured(streams).past
    assert settled_rate(past, False, now=4.0) == pytest.approx(1000.0)
    assert settled_rate(past, False, now=100.0) == pytest.approx(1000.0 / 97.0)
    assert settled_rate(pictured(taken(update(0))).past, False, now=0.0) is None
    assert dict(telling.numbers(timed, 1010.0))["lag"] == "2 s behind the newest event"


def test_classes_keep_their_places() -> None:
    assert telling.seated([4, 2, 7], [None, None]) == [4, 2]
    assert telling.seated([7, 2, 4], [4, 2]) == [7, 2]
    assert telling.seated([2, 7], [7, 2]) == [7, 2]
    assert telling.seated([2], [7, 2]) == [None, 2]


def test_ranges_count_updates_and_not_steps() -> None:
    streams = taken(*(update(number) for number in range(3000)))
    picture = pictured(streams)
    assert telling.begins(picture, picture.past.number, (50, 1)) == [1000.0, 2951000.0, 3000000.0]
    few = pictured(taken(update(0)))
    assert telling.begins(few, few.past.number, (50,)) == [1000.0, 1000.0]


def test_a_download_has_what_is_shown() -> None:
    import csv
    import io

    name = 'a "quoted", <b>class</b>\nwith a line'
    classes = ("=1+1", name, "fox")
    streams = taken(*(update(k, classes=classes, end=100.0 + k) for k in range(5)))
    picture = pictured(streams)
    text = as_csv(picture, [1, 2], first=101_000.0, last=103_000.0)
    heading, *lines = csv.reader(io.StringIO(text, newline=""))
    assert tuple(heading) == HEADER
    assert len(lines) == 3 * 2
    first = dict(zip(heading, lines[0], strict=True))
    assert first["class"] == name
    assert first["time"] == "1970-01-01T00:01:41+00:00"
    assert (first["events"], first["updates"], first["n"]) == ("2000", "1", "1000")
    assert float(first["prior"]) == pytest.approx(0.3, abs=1e-7)
    assert float(first["source"]) == pytest.approx(1 / 3, abs=1e-6)
    assert (first["memory"], first["alarm_threshold"], first["buffered"]) == ("4321", "4.4", "100")
    assert json.dumps(lines)  # text throughout
