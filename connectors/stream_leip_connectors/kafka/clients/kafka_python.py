"""kafka-python: consumers, and the client that makes everything."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.batching import batched, columns
from stream_leip_connectors.kafka.client import Assignment, Delivery, Listener, Member
from stream_leip_connectors.kafka.clients.kafka_python_admin import PythonAdmin
from stream_leip_connectors.kafka.clients.kafka_python_errors import translated
from stream_leip_connectors.kafka.clients.kafka_python_producer import PythonProducer
from stream_leip_connectors.kafka.connection import PATIENCE, Connection
from stream_leip_connectors.kafka.making import make
from stream_leip_connectors.kafka.reaching import check_reach
from stream_leip_connectors.kafka.records import Records

_FETCH = {"max_partition_fetch_bytes": 4 << 20, "fetch_max_wait_ms": 100}


class KafkaPython:
    """The client `kafka-python`.

    Parameters
    ----------
    connection
        Where the brokers are.
    """

    def __init__(self, connection: Connection) -> None:
        extras.kafka()
        self._connection = connection

    @property
    def bootstrap(self) -> str:
        """Where the brokers are."""
        return self._connection.bootstrap

    def check_reach(self) -> None:
        """Connect once."""
        check_reach(self.bootstrap, self._connection.options)

    def consumer(self, topic: str, member: Member, most: int, listener: Listener) -> "InGroup":
        """A member of a group."""
        return InGroup(self._connection, topic, member, most, listener)

    def reader(self, *, committed: bool = True) -> "Alone":
        """A reader of no group."""
        return Alone(self._connection, committed=committed)

    def producer(self, name: str, timeout: float, delivery: Delivery) -> PythonProducer:
        """A producer."""
        return PythonProducer(self._connection, name, timeout, delivery)

    def admin(self) -> PythonAdmin:
        """An admin."""
        return PythonAdmin(self._connection)


class InGroup:
    """A member of a consumer group that reads one topic.

    Parameters
    ----------
    connection
        Where the brokers are.
    topic
        What it reads.
    member
        As whom.
    most
        Records of one poll, at most.
    listener
        Who hears of partitions that come and go.
    """

    def __init__(
        self, connection: Connection, topic: str, member: Member, most: int, listener: Listener
    ) -> None:
        kafka = extras.kafka()
        self._kafka = kafka
        self.topic = topic
        self._listening = False
        with translated(kafka):
            consumer = self._consumer = make(
                kafka.KafkaConsumer,
                **connection.arguments(),
                **_FETCH,
                group_id=member.group,
                group_instance_id=member.instance,
                partition_assignment_strategy=[_assignor(member.assignment)],
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="none",
                session_timeout_ms=int(1000 * member.session),
                heartbeat_interval_ms=int(1000 * member.session / 5),
                max_poll_records=most,
            )
        batched(consumer)

        base: Any = kafka.ConsumerRebalanceListener
        outer = self

        class Rebalance(base):  # type: ignore[misc]  # the client has no types
            def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                for each in assigned:
                    # Until its state is restored, nothing may be read; a position keeps the
                    # client from looking for one.
                    consumer.pause(each)
                    consumer.seek(each, 0)
                listener.on_assigned({each.partition for each in assigned})

            def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                outer._listening = True
                try:
                    listener.on_revoked({each.partition for each in revoked})
                finally:
                    outer._listening = False

            def on_partitions_lost(self, lost: Iterable[Any]) -> None:
                listener.on_lost({each.partition for each in lost})

        consumer.subscribe([topic], listener=Rebalance())

    def poll(self, timeout: float) -> dict[int, Records]:
        """What came, by partition; rebalances happen in here."""
        coordinator = self._consumer._coordinator
        if coordinator.rejoining:
            # Where the topic's metadata made it rejoin, as leader, and the answer comes later than
            # this poll ends, the client would forget that it waits for one, and be silent for ever.
            coordinator.request_rejoin()
        with translated(self._kafka, reading=True):
            found = self._consumer.poll(timeout_ms=int(1000 * timeout))
        return {each.partition: columns(records) for each, records in found.items()}

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

    def membership(self) -> object:
        """Who this member is now, for a transaction."""
        return self._consumer.group_metadata()

    def commit(self, offsets: Mapping[int, int], timeout: float) -> None:
        """Set the group's offsets; inside a listener, which cannot wait, they are under way."""
        places = {
            self._at(partition): self._kafka.OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        with translated(self._kafka):
            if self._listening:
                self._consumer.commit_async(places)
            else:
                self._consumer.commit(places, timeout_ms=int(1000 * timeout))

    def close(self, timeout: float) -> None:
        """Leave the group, unless a static member."""
        with suppress(self._kafka.errors.KafkaError):  # the brokers find out by themselves
            self._consumer.close(autocommit=False, timeout_ms=int(1000 * timeout))

    def _at(self, partition: int) -> Any:
        return self._kafka.TopicPartition(self.topic, partition)


class Alone:
    """Reads partitions, without a group.

    Parameters
    ----------
    connection
        Where the brokers are.
    committed
        Whether to leave out what is open or aborted.
    """

    def __init__(self, connection: Connection, *, committed: bool) -> None:
        self._kafka = kafka = extras.kafka()
        settings = {**connection.arguments(), **_FETCH, "enable_auto_commit": False}
        self._topic = ""
        with translated(kafka):
            self._consumer = make(
                kafka.KafkaConsumer,
                **settings,
                isolation_level="read_committed" if committed else "read_uncommitted",
                auto_offset_reset="earliest",
            )
            try:
                self._ends = make(kafka.KafkaConsumer, **settings)
            except BaseException:
                self._consumer.close()
                raise
        batched(self._consumer)

    def partitions(self, topic: str) -> set[int]:
        """Those of a topic; none if it does not exist."""
        with translated(self._kafka):
            return set(self._ends.partitions_for_topic(topic) or ())

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

    def poll(self, timeout: float, most: int = 10_000) -> dict[int, Records]:
        """Records, by partition."""
        with translated(self._kafka, reading=True):
            found = self._consumer.poll(timeout_ms=int(1000 * timeout), max_records=most)
        return {each.partition: columns(records) for each, records in found.items()}

    def position(self, partition: int) -> int:
        """How far it came: past markers and records of aborted transactions too."""
        with translated(self._kafka):
            at = self._kafka.TopicPartition(self._topic, partition)
            return int(self._consumer.position(at, timeout_ms=1000) or 0)

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()
        self._ends.close()


def _assignor(assignment: Assignment) -> Any:
    if assignment == "cooperative":
        module = extras.kafka("kafka.coordinator.assignors.cooperative_sticky")
        return module.CooperativeStickyAssignor()
    return extras.kafka("kafka.coordinator.assignors.range").RangePartitionAssignor()
