"""Replayed events in a topic: all of them, as a monitor in this process would get them."""

from pathlib import Path

import msgspec
import numpy as np
import pytest
from stream_leip_connectors.files import example
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.errors import BrokerError, TopicsError
from stream_leip_connectors.kafka.feeding import Feed

from stream_leip import InputError
from stream_leip.replay import Pool, Stream, Sudden, Traffic
from tests.commands import run
from tests.kafka.conftest import NewTopic
from tests.kafka.topics import read

pytestmark = pytest.mark.needs_kafka


def stream(n: int, **traffic: object) -> Stream:
    held = example()
    pool = Pool(held.test_logits, held.test_labels.astype(np.int64))
    return Stream(pool, Sudden(to={-1: 0.5}), n, traffic=Traffic(**traffic))  # type: ignore[arg-type]


def test_a_topic_has_the_streams_events(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    given = stream(2000, keys=("a", "b", "c"), duplicates=0.1, late=0.05, late_by=0.5, bad=0.02)
    sent: list[int] = []
    number = Feed(Connection(bootstrap), topic, 1e6).run(
        given, lambda events: sent.extend(events.numbers.tolist())
    )
    (wanted,) = given.chunks(10_000)
    assert number == len(sent) == len(wanted) > 2000
    found = read(bootstrap, topic)
    values = [msgspec.json.decode(record.value) for record in found]
    # Keys are spread over partitions, so the order holds within each key only.
    for place, name in enumerate(given.traffic.keys):
        theirs = wanted.part(wanted.keys == place)
        mine = [k for k, record in enumerate(found) if record.key == name.encode()]
        assert [values[k]["id"] for k in mine] == theirs.numbers.tolist()
        assert [values[k]["time"] for k in mine] == theirs.times.tolist()
        assert [found[k].timestamp for k in mine] == (1000 * theirs.times).astype(int).tolist()
        scores = np.array([values[k]["scores"] for k in mine], np.float64)  # null becomes NaN
        lost = np.where(np.isfinite(theirs.scores), theirs.scores, np.nan)
        np.testing.assert_array_equal(scores.astype(np.float32), lost.astype(np.float32))


def test_it_keeps_to_its_rate(bootstrap: str, new_topic: NewTopic) -> None:
    import time

    begun = time.monotonic()
    Feed(Connection(bootstrap), new_topic(), 400.0).run(stream(400))
    assert time.monotonic() - begun > 0.9


def test_it_stops_when_asked(bootstrap: str, new_topic: NewTopic) -> None:
    asked: list[int] = []
    feed = Feed(Connection(bootstrap), new_topic(), 2000.0)
    assert feed.run(stream(2000), lambda events: asked.append(1), lambda: len(asked) > 2) == 300


def test_what_cannot_be_is_one_line(bootstrap: str) -> None:
    with pytest.raises(TopicsError, match="topic: 'nowhere' does not exist"):
        Feed(Connection(bootstrap), "nowhere").run(stream(10))
    with pytest.raises(BrokerError, match="nobody listens there"):
        Feed(Connection("127.0.0.1:1"), "t").run(stream(10))
    with pytest.raises(InputError, match="rate: 0"):
        Feed(Connection(bootstrap), "t", 0)


def test_replay_feeds_a_topic(bootstrap: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(2)
    given = ["--events", "500", "--rate", "100000", "--keys", "4", "--schedule", "sudden"]
    done = run("replay", "--to-kafka", bootstrap, "--topic", topic, *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"500 events written to {topic}" in done.stderr
    assert len(read(bootstrap, topic)) == 500
    assert not list(tmp_path.iterdir())
