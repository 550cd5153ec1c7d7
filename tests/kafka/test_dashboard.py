"""The dashboard of a Kafka topic, on a real broker."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from stream_leip_connectors.dashboard.feeds import KafkaFeed, running
from stream_leip_connectors.dashboard.streams import Streams
from stream_leip_connectors.kafka.local import LocalBroker

from tests.dashboard.serving import Looking, serving
from tests.dashboard.updates import encode, update
from tests.kafka.topics import write

pytestmark = pytest.mark.needs_kafka


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def send(bootstrap: str, topic: str, *updates: dict[str, Any]) -> None:
    lines = zip(encode(*updates), updates, strict=True)
    write(bootstrap, topic, [{"key": str(u["key"]).encode(), "value": line} for line, u in lines])


def test_many_keys_of_several_partitions(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic(3)
    send(bootstrap, topic, *(update(k, key=f"k{j}") for k in range(3) for j in range(100)))
    write(bootstrap, topic, [{"key": b"k1"}, {"value": b"no update"}])
    feed, streams = KafkaFeed(bootstrap, topic), Streams()
    with running(feed, streams):
        until(lambda: streams.counts().updates == 300)
        until(lambda: streams.counts().bad == 1)
        assert (streams.counts().streams, feed.health().state) == (100, "following")
        send(bootstrap, topic, update(3, key="k7", raised=True))
        until(lambda: streams.entries()[0][0].name == "k7")


def test_what_is_not_yet_read_is_counted(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic(2)
    send(bootstrap, topic, *(update(k, key=f"k{j}") for k in range(3) for j in range(10)))
    held, go = threading.Event(), threading.Event()

    class Slow(Streams):
        def take(self, lines: Iterable[bytes], received: float) -> None:
            super().take(lines, received)
            held.set()
            go.wait(30.0)

    feed, streams = KafkaFeed(bootstrap, topic), Slow()
    with running(feed, streams):
        assert held.wait(30.0)
        send(bootstrap, topic, *(update(k, key="k") for k in range(3000)))
        time.sleep(1.5)  # so that a count is due once it goes on
        go.set()
        until(lambda: feed.health().unread.endswith("records"))
        until(lambda: streams.counts().updates == 3030)
        until(lambda: not feed.health().unread)


def test_a_broker_that_goes_and_comes_back(broker: LocalBroker) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic("priors", 1, 1)])
    admin.close()
    send(broker.bootstrap, "priors", update(0, key="a"))
    feed, streams = KafkaFeed(broker.bootstrap, "priors"), Streams()
    with running(feed, streams):
        until(lambda: streams.counts().updates == 1)
        broker.kill()
        until(lambda: feed.health().state == "gone", 60.0)
        assert "trying again" in feed.health().text
        broker.start()
        send(broker.bootstrap, "priors", update(1, key="a"))
        until(lambda: streams.counts().updates == 2, 60.0)
        until(lambda: feed.health().state == "following")


@pytest.mark.needs_browser
def test_the_page_of_a_topic(browser: Any, bootstrap: str, new_topic: Any) -> None:
    topic = new_topic()
    arguments = ("--kafka", "--bootstrap", bootstrap, "--updates", topic)
    send(bootstrap, topic, *(update(0, key=f"k{j}") for j in range(20)))
    with (
        serving(*arguments) as url,
        Looking(browser, f"{url}?key=k7") as page,
    ):
        page.until("#health", f"following {topic} at {bootstrap}")
        page.until("#name", "k7")
        page.until("#found", "20 of 20 keys")
        send(bootstrap, topic, update(1, (0.1, 0.1, 0.8), key="k7", raised=True))
        page.until("#mix-now", "fox: 80.0 %")
        page.until("#alarm-word", "changed")
