"""Feeding a topic with events, at a chosen rate."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from stream_leip import InputError
from stream_leip.replay import Events, Stream
from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import ClientFailed
from stream_leip_connectors.kafka.clients import make_client
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.errors import BrokerError, TopicsError
from stream_leip_connectors.kafka.making import make
from stream_leip_connectors.kafka.topics import administering

# Times a second that a paced feed sends.
_TURNS = 20
# Seconds until what was sent is given up.
_PATIENCE = 30.0


@dataclass(frozen=True)
class Feed:
    """Writes a stream of replayed events to a topic, as JSON.

    Each message has the event's key, its time as timestamp, and as value an object with `id`,
    `time` and `scores`. A score that is not finite becomes null: such an event is a bad one.

    Parameters
    ----------
    connection
        Where the brokers are.
    topic
        It must exist.
    rate
        Events a second, at most.
    """

    connection: Connection
    topic: str
    rate: float = 1000.0

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise InputError(f"rate: {self.rate!r}; use events a second, above zero")

    def run(
        self,
        stream: Stream,
        on_sent: Callable[[Events], None] = lambda events: None,
        asked: Callable[[], bool] = lambda: False,
    ) -> int:
        """Send the events, and wait until the brokers have them; how many there were.

        Parameters
        ----------
        stream
            What to send, duplicates and broken events included.
        on_sent
            Called with events once they are handed to the client.
        asked
            Whether to stop early.
        """
        client = make_client("kafka-python", self.connection)
        client.check_reach()
        with administering(client) as admin:
            there = admin.partitions([self.topic])
        if self.topic not in there:
            raise TopicsError(
                f"topic: {self.topic!r} does not exist on {self.connection.bootstrap}; create it, "
                "or name another with --topic"
            )
        producer = self._producer()
        failures: list[Exception] = []
        sent = 0
        try:
            begun = time.monotonic()
            for events in stream.chunks(max(1, min(int(self.rate / _TURNS), 10_000))):
                time.sleep(max(0.0, begun + sent / self.rate - time.monotonic()))
                if asked() or failures:
                    break
                self._send(producer, events, stream.traffic.keys, failures)
                sent += len(events)
                on_sent(events)
            producer.flush(timeout=_PATIENCE)
        except extras.kafka().errors.KafkaError as error:
            failures.append(error)
        finally:
            producer.close(timeout=1)
        if failures:
            raise BrokerError(
                f"{self.topic}: the broker did not take all events: {failures[0]}; is it up, and "
                "may this user write?"
            )
        return sent

    def _producer(self) -> Any:
        try:
            settings = self.connection.arguments()
        except ClientFailed as error:
            raise BrokerError(f"bootstrap: {error}; is the broker there?") from error
        return make(extras.kafka().KafkaProducer, **settings, linger_ms=5, batch_size=128 << 10)

    def _send(
        self, producer: Any, events: Events, keys: tuple[str, ...], failures: list[Exception]
    ) -> None:
        for number, at, key, row in zip(
            events.numbers.tolist(),
            events.times.tolist(),
            events.keys.tolist(),
            events.scores.tolist(),
            strict=True,
        ):
            producer.send(
                self.topic,
                key=keys[key].encode() if keys else None,
                value=msgspec.json.encode({"id": number, "time": at, "scores": row}),
                timestamp_ms=int(1000 * at),
            ).add_errback(failures.append)
