"""confluent-kafka: the producer."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import (
    MOST_BYTES,
    ClientFailed,
    Delivery,
    GroupConsumer,
    Sending,
)
from stream_leip_connectors.kafka.clients.confluent_errors import failed, translated
from stream_leip_connectors.kafka.clients.confluent_settings import arguments
from stream_leip_connectors.kafka.connection import PATIENCE, Connection

_LOG = logging.getLogger("confluent_kafka")


class ConfluentProducer:
    """Writes what a worker has done: in transactions, one at a time, or stage after stage.

    Parameters
    ----------
    connection
        Where the brokers are.
    name
        Its transactional id: whoever comes later by this name ends what this one left open.
    timeout
        Seconds after which the brokers abort a transaction that its producer left open.
    delivery
        Whether there are transactions.
    """

    def __init__(
        self, connection: Connection, name: str, timeout: float, delivery: Delivery
    ) -> None:
        self._confluent = extras.confluent()
        self._transacts = delivery == "exactly-once"
        settings: dict[str, Any] = {
            **arguments(connection),
            "linger.ms": 5,
            "batch.size": 256 << 10,
            "message.max.bytes": MOST_BYTES,
            # As kafka-python and Java do it, so that a key has one partition whoever writes.
            "partitioner": "murmur2_random",
        }
        if self._transacts:
            settings["transactional.id"] = name
            settings["transaction.timeout.ms"] = int(1000 * timeout)
        else:
            # Brokers that forbid transactions may forbid idempotence; one request at a time keeps
            # the order. What is late is dropped, before another process may have the partitions.
            settings["enable.idempotence"] = False
            settings["max.in.flight.requests.per.connection"] = 1
            settings["acks"] = "all"
            settings["message.timeout.ms"] = int(1000 * PATIENCE)
        with translated():
            self._producer = self._confluent.Producer(settings, logger=_LOG)
            if self._transacts:
                self._producer.init_transactions(PATIENCE)

    def commit(
        self,
        stages: Sequence[Sequence[Sending]],
        consumer: GroupConsumer,
        offsets: Mapping[int, int],
        timeout: float,
    ) -> None:
        """Write all and the input's offsets: in one transaction, or one after the other."""
        until = time.monotonic() + timeout
        if not self._transacts:
            with translated():
                for stage in stages:
                    self._send(stage, until)
            consumer.commit(offsets, _left(until))
            return
        membership = consumer.membership()
        places = [
            self._confluent.TopicPartition(consumer.topic, partition, offset)
            for partition, offset in offsets.items()
        ]
        try:
            self._producer.begin_transaction()
            self._send([each for stage in stages for each in stage], until)
            self._producer.send_offsets_to_transaction(places, membership, _left(until))
            self._producer.commit_transaction(_left(until))
        except self._confluent.KafkaException as error:
            if error.args[0].txn_requires_abort():
                # Whoever keeps this producer can begin another; it fails if it was fenced.
                with translated():
                    self._producer.abort_transaction(PATIENCE / 2)
            raise failed(error.args[0]) from error

    def _send(self, sendings: Sequence[Sending], until: float) -> None:
        refused: list[Any] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                refused.append(error)

        for topic, partition, message in sendings:
            given = {
                "value": b"" if message.key is message.value is None else message.value,
                "key": message.key,
                "partition": -1 if partition is None else partition,
                "headers": message.headers or None,
                "on_delivery": delivered,
            }
            while True:
                try:
                    self._producer.produce(topic, **given)
                    break
                except BufferError:  # its queue is full
                    self._producer.poll(min(0.1, _left(until)))
        if self._producer.flush(_left(until)):
            raise ClientFailed("retry", "records were not written in time")
        if refused:
            raise failed(refused[0])

    def close(self, timeout: float) -> None:
        """Let go of it, and wait no longer than that: what is open, the next of its name aborts."""
        thread = threading.Thread(target=self._close, name="closing", daemon=True)
        thread.start()
        thread.join(timeout)

    def _close(self) -> None:
        # One that was fenced makes close() trip over its own error.
        with suppress(self._confluent.KafkaException, SystemError):
            self._producer.purge()
            self._producer.close()


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise ClientFailed("retry", "a commit did not end in time")
    return left
