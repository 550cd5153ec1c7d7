"""kafka-python: the producer."""

import threading
from collections.abc import Callable, Mapping, Sequence
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
from stream_leip_connectors.kafka.clients.kafka_python_errors import translated
from stream_leip_connectors.kafka.connection import PATIENCE, Connection
from stream_leip_connectors.kafka.making import make


class PythonProducer:
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
        self._kafka = kafka = extras.kafka()
        self._transacts = delivery == "exactly-once"
        kind: dict[str, Any] = {
            "transactional_id": name,
            "transaction_timeout_ms": int(1000 * timeout),
        }
        if not self._transacts:
            # Brokers that forbid transactions may forbid idempotence; one request at a time keeps
            # the order. What is late is dropped, before another process may have the partitions.
            kind = {
                "enable_idempotence": False,
                "max_in_flight_requests_per_connection": 1,
                "acks": "all",
                "request_timeout_ms": int(1000 * PATIENCE / 2),
                "delivery_timeout_ms": int(1000 * PATIENCE),
            }
        with translated(kafka):
            self._producer = make(
                kafka.KafkaProducer,
                **connection.arguments(),
                **kind,
                max_block_ms=int(1000 * PATIENCE),
                linger_ms=5,
                batch_size=256 << 10,
                max_request_size=MOST_BYTES,
            )
            if self._transacts:
                try:
                    self._producer.init_transactions()
                except BaseException:
                    self._producer.close(timeout=0)
                    raise

    def commit(
        self,
        stages: Sequence[Sequence[Sending]],
        consumer: GroupConsumer,
        offsets: Mapping[int, int],
        timeout: float,
    ) -> None:
        """Write all and the input's offsets: in one transaction, or one after the other."""
        if self._transacts:
            membership = consumer.membership()
            self._within(
                timeout, lambda: self._transact(stages, consumer.topic, offsets, membership)
            )
        else:
            self._within(timeout, lambda: self._write(stages))
            consumer.commit(offsets, timeout)

    def _within(self, timeout: float, call: Callable[[], None]) -> None:
        failure: list[BaseException] = []

        def run() -> None:
            try:
                call()
            except BaseException as error:  # it is raised below, in the caller
                failure.append(error)

        # kafka-python waits for ever for a broker that is gone; a thread can be left behind.
        thread = threading.Thread(target=run, name="commit", daemon=True)
        thread.start()
        thread.join(timeout)
        if thread.is_alive():
            raise ClientFailed("retry", f"a commit did not end within {timeout:g} s")
        if failure:
            with translated(self._kafka):
                raise failure[0]

    def _transact(
        self,
        stages: Sequence[Sequence[Sending]],
        topic: str,
        offsets: Mapping[int, int],
        membership: object,
    ) -> None:
        kafka, producer = self._kafka, self._producer
        producer.begin_transaction()
        sent = [self._send(each) for stage in stages for each in stage]
        places = {
            kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        producer.send_offsets_to_transaction(places, membership)
        self._flush(sent)
        producer.commit_transaction()

    def _write(self, stages: Sequence[Sequence[Sending]]) -> None:
        for stage in stages:
            self._flush([self._send(each) for each in stage])

    def _send(self, sending: Sending) -> Any:
        topic, partition, message = sending
        return self._producer.send(
            topic,
            key=message.key,
            value=b"" if message.key is message.value is None else message.value,
            headers=message.headers,
            partition=partition,
        )

    def _flush(self, sent: list[Any]) -> None:
        self._producer.flush()
        for each in sent:
            each.get(0)  # a record that was refused, too large say, would otherwise be missing

    def close(self, timeout: float) -> None:
        """Let go of it, and wait no longer than that: what is open, the next of its name aborts."""
        thread = threading.Thread(target=self._close, name="closing", daemon=True)
        thread.start()
        thread.join(timeout)

    def _close(self) -> None:
        with suppress(self._kafka.errors.KafkaError):
            # Without a transaction, nothing may be written later that somebody has read again.
            self._producer.close(timeout=60 if self._transacts else 0)
