"""What the connector's log says on the real broker, and where."""

import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stream_leip_connectors.kafka.burials import Burials
from stream_leip_connectors.kafka.records import Message

from tests.kafka.conftest import NewTopic
from tests.kafka.streams import draw, messages
from tests.kafka.test_operation import worker
from tests.kafka.topics import write

pytestmark = pytest.mark.needs_kafka


def test_every_line_is_json_and_says_where(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    write(bootstrap, topic, [*messages(*draw(0, 500, 5)), {"key": b"odd", "value": b"{"}])
    process = worker(bootstrap, topic, tmp_path, "--log-format", "json")
    lines: list[dict[str, Any]] = []
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            lines.append(msgspec.json.decode(line))
            if "became dead letters" in lines[-1]["message"]:
                os.kill(process.pid, signal.SIGTERM)
    assert process.wait(20) == 0
    (restored,) = (line for line in lines if line["message"].startswith("restored"))
    (buried,) = (line for line in lines if "dead letters" in line["message"])
    ended = lines[-1]
    for each in lines:  # shops whose mix moved
        if "class mix" in each["message"]:
            assert each["key"].startswith("shop-")
            assert each["partition"] in (0, 1)
            assert each["event"] > 0
    assert restored["offsets"] == {"0": 0, "1": 0}
    assert buried["message"].startswith("1 events became dead letters; one of them: not JSON")
    assert buried["key"] == "odd"
    assert {"partition", "offset"} < buried.keys()
    assert ended["message"].startswith("ended: 501 events")


def test_an_error_is_json_too(bootstrap: str, tmp_path: Path) -> None:
    process = worker(bootstrap, "nowhere", tmp_path, "--log-format", "json")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert msgspec.json.decode(said)["message"].startswith("input: topic 'nowhere' does not exist")


def test_dead_letters_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    burials = Burials(lambda: now)
    letter = Message(None, b"", [("stream-leip.reason", b"odd"), ("stream-leip.offset", b"7")])
    for seconds in (0, 1, 30, 58, 61):
        now = 1000.0 + seconds
        burials.tell({3: [letter, letter]})
    burials.tell({4: [letter]})
    told = [(record.args, record.partition) for record in caplog.records]  # type: ignore[attr-defined]
    assert told == [((2, "odd"), 3), ((8, "odd"), 3), ((1, "odd"), 4)]
