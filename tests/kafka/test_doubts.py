"""A commit whose answer was lost: counted and told once, if it happened."""

from collections.abc import Callable
from typing import Any

import pytest
from stream_leip_connectors.kafka import KafkaMonitor
from stream_leip_connectors.kafka.client import ClientFailed
from stream_leip_connectors.kafka.producing import OwnProducer

from stream_leip import Tumbling
from tests.kafka.conftest import NewTopic
from tests.kafka.streams import Running, differences, draw, expected, messages, settings, written
from tests.kafka.topics import write
from tests.streams import PROFILE

WINDOW = Tumbling(count=50)


class Unheard:
    """The real producer, of which the answer to one commit, or the commit itself, is lost."""

    def __init__(self, producer: Any, happens: bool, left: list[int]) -> None:
        self._producer = producer
        self._happens = happens
        self._left = left

    def commit(self, *arguments: Any) -> None:
        lost = self._left.pop() if self._left else 0
        if self._happens or not lost:
            self._producer.commit(*arguments)
        if lost:
            raise ClientFailed("retry", "the connection was lost")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


@pytest.mark.needs_kafka
@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("happens", [True, False])
def test_what_was_committed_is_counted_and_told_once(
    bootstrap: str,
    new_topic: NewTopic,
    monkeypatch: pytest.MonkeyPatch,
    happens: bool,
    delivery: str,
) -> None:
    topic = new_topic(2)
    write(bootstrap, topic, messages(*draw(0, 2000, 10)))
    left = [1]
    own: Callable[[OwnProducer], Any] = OwnProducer.own
    # No broker loses an answer when asked to: the rest is real.
    monkeypatch.setattr(OwnProducer, "own", lambda self: Unheard(own(self), happens, left))
    monitor = KafkaMonitor(PROFILE, settings(bootstrap, topic, delivery=delivery), WINDOW)
    wanted = expected(bootstrap, topic, PROFILE, WINDOW)
    with Running(monitor) as one:
        one.until(lambda: monitor.total.events >= 2000)
    assert not left
    assert monitor.total.events == 2000
    assert monitor.total.updates == len(wanted)
    assert differences(written(bootstrap, f"{topic}-priors"), wanted) == []
