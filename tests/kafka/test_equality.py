"""Updates of the connector are those of a KeyedMonitor, value for value."""

from typing import Any

import pytest
from stream_leip_connectors.kafka import KafkaMonitor

from stream_leip import Adaptive, Fading, Sliding, Tumbling
from tests.kafka.conftest import NewTopic
from tests.kafka.streams import (
    Running,
    all_taken,
    differences,
    draw,
    expected,
    messages,
    settings,
    written,
)
from tests.kafka.topics import write
from tests.streams import PROFILE

pytestmark = pytest.mark.needs_kafka

WINDOWS: list[Any] = [
    Tumbling(count=100),
    Sliding(count=200, every=50),
    Fading(half_life=100, every=50),
    Tumbling(seconds=10.0, lateness=1.0),
    Sliding(seconds=30.0, every=5.0, lateness=1.0),
    Adaptive(every=100),
]


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_equality(bootstrap: str, new_topic: NewTopic, window: Any) -> None:
    topic = new_topic(4)
    write(bootstrap, topic, messages(*draw(0, 6000, 10)))
    monitor = KafkaMonitor(PROFILE, settings(bootstrap, topic), window)
    with Running(monitor) as run:
        run.until(all_taken(monitor, 6000))
    found = written(bootstrap, f"{topic}-priors")
    assert len(found) > 50
    assert differences(found, expected(bootstrap, topic, PROFILE, window)) == []
