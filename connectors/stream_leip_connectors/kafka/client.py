"""What the connector asks of a Kafka client; kafka-python is imported here and nowhere else.

Another client takes its place by offering the same four classes.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.connection import PATIENCE, ClientFailed, Connection, translated
from stream_leip_connectors.kafka.corruption import CorruptBatch, find_corrupt
from stream_leip_connectors.kafka.records import Message, Record

Assignment = Literal["cooperative", "eager"]
# Of one record; brokers take 1 MiB unless told otherwise.
MOST_BYTES = 1 << 20
_FETCH = {"max_partition_fetch_bytes": 4 << 20, "fetch_max_wait_ms": 100}


class Sending(NamedTuple):
    """A message and where it goes; a partition of None is chosen by the key."""

    topic: str
    partition: int | None
    message: Message


class GroupConsumer:
    """A member of a consumer group that reads one topic.

    Parameters
    ----------
    connection
        Where the brokers are.
    topic, group
        What it reads, and as a member of which group.
    instance
        The name of a static member; None for a dynamic one.
    assignment
        How partitions move when members come and go.
    session
        Seconds after which a silent member is given up.
    most
        Records of one poll, at most.
    on_assigned, on_revoked, on_lost
        Called inside `poll` and `close` with partitions; they must not call the consumer, but for
        `membership`.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        group: str,
        *,
        instance: str | None,
        assignment: Assignment,
        session: float,
        most: int,
        on_assigned: Callable[[set[int]], None],
        on_revoked: Callable[[set[int]], None],
        on_lost: Callable[[set[int]], None],
    ) -> None:
        kafka = extras.kafka()
        self._kafka = kafka
        self._topic = topic
        self._most = most
        with translated(kafka):
            consumer = self._consumer = kafka.KafkaConsumer(
                **connection.arguments(),
                **_FETCH,
                group_id=group,
                group_instance_id=instance,
                partition_assignment_strategy=[_assignor(assignment)],
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="none",
                session_timeout_ms=int(1000 * session),
                heartbeat_interval_ms=int(1000 * session / 5),
                max_poll_records=most,
            )

        base: Any = kafka.ConsumerRebalanceListener

        class Listener(base):  # type: ignore[misc]  # the client has no types
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                for each in assigned:
                    # Until its state is restored, nothing may be read; a position keeps the
                    # client from looking for one.
                    consumer.pause(each)
                    consumer.seek(each, 0)
                on_assigned({each.partition for each in assigned})

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                on_revoked({each.partition for each in revoked})

            def on_partitions_lost(self, lost: Iterable[Any]) -> None:
                on_lost({each.partition for each in lost})

        consumer.subscribe([topic], listener=Listener())

    def poll(self, timeout: float) -> dict[int, list[Record]]:
        """What came, by partition; rebalances happen in here."""
        with translated(self._kafka, reading=True):
            found = self._consumer.poll(timeout_ms=int(1000 * timeout))
        return {each.partition: records for each, records in found.items()}

    def pause(self, partitions: Iterable[int]) -> None:
        """Read no more of these."""
        self._consumer.pause(*map(self._at, partitions))

    def resume(self, partitions: Iterable[int]) -> None:
        """Read these again."""
        self._consumer.resume(*map(self._at, partitions))

    def seek(self, partition: int, offset: int) -> None:
        """Go on at an offset."""
        self._consumer.seek(self._at(partition), offset)

    def position(self, partition: int) -> int | None:
        """Where it goes on, past markers and the like; None if that is not known."""
        with translated(self._kafka):
            found: int | None = self._consumer.position(self._at(partition), timeout_ms=0)
        return found

    def high_watermark(self, partition: int) -> int | None:
        """The offset that the next event will have; None before the first fetch."""
        found: int | None = self._consumer.highwater(self._at(partition))
        return found

    def committed(self, partition: int) -> int | None:
        """The group's offset, once no transaction is about to change it."""
        with translated(self._kafka):
            found: int | None = self._consumer.committed(
                self._at(partition), timeout_ms=int(1000 * PATIENCE)
            )
        return found

    def membership(self) -> Any:
        """Who this member is now, for a transaction."""
        return self._consumer.group_metadata()

    def close(self, timeout: float) -> None:
        """Leave the group, unless a static member."""
        with suppress(self._kafka.errors.KafkaError):  # the brokers find out by themselves
            self._consumer.close(autocommit=False, timeout_ms=int(1000 * timeout))

    def _at(self, partition: int) -> Any:
        return self._kafka.TopicPartition(self._topic, partition)


class TopicReader:
    """Reads partitions, without a group.

    Parameters
    ----------
    connection
        Where the brokers are.
    """

    def __init__(self, connection: Connection) -> None:
        self._kafka = kafka = extras.kafka()
        settings = {**connection.arguments(), **_FETCH, "enable_auto_commit": False}
        with translated(kafka):
            self._consumer = kafka.KafkaConsumer(
                **settings, isolation_level="read_committed", max_poll_records=10_000
            )
            self._ends = kafka.KafkaConsumer(**settings)

    def bounds(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """First offset and high watermark of each partition."""
        at = [self._kafka.TopicPartition(topic, each) for each in partitions]
        with translated(self._kafka):
            first = self._ends.beginning_offsets(at, timeout_ms=int(1000 * PATIENCE))
            # Not the last stable offset: a transaction may be committed, its marker to come.
            end = self._ends.end_offsets(at, timeout_ms=int(1000 * PATIENCE))
        return {each.partition: (first[each], end[each]) for each in at}

    def start(self, topic: str, places: Mapping[int, int]) -> None:
        """Read from these offsets on."""
        at = {self._kafka.TopicPartition(topic, key): to for key, to in places.items()}
        self._topic = topic
        self._consumer.assign(list(at))
        for each, offset in at.items():
            self._consumer.seek(each, offset)

    def poll(self, timeout: float) -> dict[int, list[Record]]:
        """Committed records, by partition."""
        with translated(self._kafka, reading=True):
            found = self._consumer.poll(timeout_ms=int(1000 * timeout))
        return {each.partition: records for each, records in found.items()}

    def position(self, partition: int) -> int:
        """How far it came: past markers and records of aborted transactions too."""
        with translated(self._kafka):
            at = self._kafka.TopicPartition(self._topic, partition)
            return int(self._consumer.position(at, timeout_ms=1000) or 0)

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()
        self._ends.close()


def corrupt_batches(
    connection: Connection, topic: str, positions: Mapping[int, int]
) -> list[CorruptBatch]:
    """The batches at these positions that no client can read."""
    kafka = extras.kafka()
    with translated(kafka):
        return find_corrupt(
            lambda: kafka.KafkaConsumer(**connection.arguments(), enable_auto_commit=False),
            {(topic, partition): offset for partition, offset in positions.items()},
        )


class Producer:
    """Writes transactions, one at a time.

    Parameters
    ----------
    connection
        Where the brokers are.
    name
        Its transactional id: whoever comes later by this name ends what this one left open.
    timeout
        Seconds after which the brokers abort a transaction that its producer left open.
    """

    def __init__(self, connection: Connection, name: str, timeout: float) -> None:
        self._kafka = kafka = extras.kafka()
        with translated(kafka):
            self._producer = kafka.KafkaProducer(
                **connection.arguments(),
                transactional_id=name,
                transaction_timeout_ms=int(1000 * timeout),
                max_block_ms=int(1000 * PATIENCE),
                linger_ms=5,
                batch_size=256 << 10,
                max_request_size=MOST_BYTES,
            )
            self._producer.init_transactions()

    def transact(
        self,
        sendings: Sequence[Sending],
        topic: str,
        offsets: Mapping[int, int],
        membership: Any,
        timeout: float,
    ) -> None:
        """Send all, with the input's offsets, in one transaction.

        After `ClientFailed` nobody knows whether it was committed: close, and make another
        producer of the same name; then the group's offsets tell.
        """
        failure: list[BaseException] = []

        def run() -> None:
            try:
                self._transact(sendings, topic, offsets, membership)
            except BaseException as error:  # it is raised below, in the caller
                failure.append(error)

        # kafka-python waits for ever for a broker that is gone; a thread can be left behind.
        thread = threading.Thread(target=run, name="transaction", daemon=True)
        thread.start()
        thread.join(timeout)
        if thread.is_alive():
            raise ClientFailed("retry", f"a transaction did not end within {timeout:g} s")
        if failure:
            with translated(self._kafka):
                raise failure[0]

    def _transact(
        self,
        sendings: Sequence[Sending],
        topic: str,
        offsets: Mapping[int, int],
        membership: Any,
    ) -> None:
        kafka, producer = self._kafka, self._producer
        producer.begin_transaction()
        sent = [
            producer.send(
                to,
                key=message.key,
                value=b"" if message.key is message.value is None else message.value,
                headers=message.headers,
                partition=partition,
            )
            for to, partition, message in sendings
        ]
        places = {
            kafka.TopicPartition(topic, partition): kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        producer.send_offsets_to_transaction(places, membership)
        producer.flush()
        for each in sent:
            each.get(0)  # a record that was refused, too large say, would otherwise be missing
        producer.commit_transaction()

    def close(self, timeout: float) -> None:
        """Let go of it, and wait no longer than that: what is open, the next of its name aborts."""
        thread = threading.Thread(target=self._close, name="closing", daemon=True)
        thread.start()
        thread.join(timeout)

    def _close(self) -> None:
        with suppress(self._kafka.errors.KafkaError):
            self._producer.close(timeout=60)


def _assignor(assignment: Assignment) -> Any:
    if assignment == "cooperative":
        module = extras.kafka("kafka.coordinator.assignors.cooperative_sticky")
        return module.CooperativeStickyAssignor()
    return extras.kafka("kafka.coordinator.assignors.range").RangePartitionAssignor()
