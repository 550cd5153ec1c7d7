"""confluent-kafka: consumers, and the client that makes everything."""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import ClientFailed, Delivery, Listener, Member
from stream_leip_connectors.kafka.clients.confluent_admin import ConfluentAdmin
from stream_leip_connectors.kafka.clients.confluent_errors import failed, translated
from stream_leip_connectors.kafka.clients.confluent_producer import ConfluentProducer
from stream_leip_connectors.kafka.clients.confluent_reaching import check_reach
from stream_leip_connectors.kafka.clients.confluent_records import by_partition
from stream_leip_connectors.kafka.clients.confluent_settings import arguments
from stream_leip_connectors.kafka.connection import PATIENCE, Connection
from stream_leip_connectors.kafka.records import Records

_FETCH = {
    "fetch.wait.max.ms": 100,
    "max.partition.fetch.bytes": 4 << 20,
    # Of each partition, in the background; the defaults are 100,000 records and 64 MiB.
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 16 << 10,
    "fetch.queue.backoff.ms": 10,
    "check.crcs": True,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    # Positions stop at records; that an end was reached tells of markers behind them.
    "enable.partition.eof": True,
}
_ASSIGNORS = {"cooperative": "cooperative-sticky", "eager": "range"}
# The client wants a name; whoever reads alone never joins the group.
_ALONE = "stream-leip-alone"


class Confluent:
    """The client `confluent`.

    Parameters
    ----------
    connection
        Where the brokers are.
    """

    def __init__(self, connection: Connection) -> None:
        extras.confluent()
        self._connection = connection

    @property
    def bootstrap(self) -> str:
        """Where the brokers are."""
        return self._connection.bootstrap

    def check_reach(self) -> None:
        """Connect once."""
        check_reach(self._connection)

    def consumer(self, topic: str, member: Member, most: int, listener: Listener) -> "InGroup":
        """A member of a group."""
        return InGroup(self._connection, topic, member, most, listener)

    def reader(self, *, committed: bool = True) -> "Alone":
        """A reader of no group."""
        return Alone(self._connection, committed=committed)

    def producer(self, name: str, timeout: float, delivery: Delivery) -> ConfluentProducer:
        """A producer."""
        return ConfluentProducer(self._connection, name, timeout, delivery)

    def admin(self) -> ConfluentAdmin:
        """An admin."""
        return ConfluentAdmin(self._connection)


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
        self.topic = topic
        self._most = most
        self._listener = listener
        self._positions: dict[int, int] = {}
        self._waiting: set[int] = set()  # for their first `resume`
        self._incremental = member.assignment == "cooperative"
        self._failure: ClientFailed | None = None
        self._closing = False
        self._confluent = confluent = extras.confluent()
        settings = {
            **arguments(connection),
            **_FETCH,
            "group.id": member.group,
            "partition.assignment.strategy": _ASSIGNORS[member.assignment],
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "session.timeout.ms": int(1000 * member.session),
            "heartbeat.interval.ms": int(1000 * member.session / 5),
            "on_commit": self._on_commit,
        }
        if member.instance is not None:
            settings["group.instance.id"] = member.instance
        with translated():
            self._consumer = confluent.Consumer(settings, logger=_LOG)
            self._consumer.subscribe(
                [topic],
                on_assign=self._on_assign,
                on_revoke=self._on_revoke,
                on_lost=self._on_lost,
            )

    def _on_assign(self, consumer: Any, assigned: list[Any]) -> None:
        for each in assigned:
            # Until its state is restored, nothing of it is handed on. One that reads at the end
            # goes on at once after a seek; one that is paused may take a second.
            each.offset = self._confluent.OFFSET_END
        if self._incremental:
            consumer.incremental_assign(assigned)
        else:
            consumer.assign(assigned)
        partitions = {each.partition for each in assigned}
        self._waiting |= partitions
        self._listener.on_assigned(partitions)

    def _on_revoke(self, consumer: Any, revoked: list[Any]) -> None:
        if not self._closing:
            self._listener.on_revoked({each.partition for each in revoked})

    def _on_lost(self, consumer: Any, lost: list[Any]) -> None:
        if not self._closing:
            self._listener.on_lost({each.partition for each in lost})

    def _on_commit(self, error: Any, offsets: list[Any]) -> None:
        wrong = [each.error for each in offsets if each.error is not None]
        first = error or next(iter(wrong), None)
        if first is not None and self._failure is None:
            self._failure = failed(first)

    def poll(self, timeout: float) -> dict[int, Records]:
        """What came, by partition; rebalances happen in here."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        with translated():
            messages = self._consumer.consume(self._most, timeout)
        found = by_partition(messages)
        found.move(self._positions)
        if found.failure is not None:  # raised later: what came before it is still to be taken
            self._failure = found.failure
        return {each: some for each, some in found.records.items() if each not in self._waiting}

    def pause(self, partitions: Iterable[int]) -> None:
        """Read no more of these."""
        with translated():
            self._consumer.pause([self._at(each) for each in partitions])

    def resume(self, partitions: Iterable[int]) -> None:
        """Read these again."""
        self._waiting.difference_update(partitions)
        with translated():
            self._consumer.resume([self._at(each) for each in partitions])

    def seek(self, partition: int, offset: int) -> None:
        """Go on at an offset."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._consumer.seek(self._at(partition, offset))
            except self._confluent.KafkaException as error:
                # An assignment takes a moment to get where seeks can be.
                starting = error.args[0].code() == self._confluent.KafkaError._STATE
                if not starting or time.monotonic() > until:
                    raise failed(error.args[0]) from error
                time.sleep(0.01)
            else:
                self._positions[partition] = offset
                return

    def position(self, partition: int) -> int | None:
        """Where it goes on, past markers and the like; None if that is not known."""
        return self._positions.get(partition)

    def high_watermark(self, partition: int) -> int | None:
        """The offset that the next event will have; None before the first fetch."""
        with translated():
            _, end = self._consumer.get_watermark_offsets(self._at(partition), cached=True)
        return None if end < 0 else int(end)

    def committed(self, partition: int) -> int | None:
        """The group's offset, once no transaction is about to change it."""
        with translated():
            (found,) = self._consumer.committed([self._at(partition)], timeout=PATIENCE)
        if found.error is not None:
            raise failed(found.error)
        return None if found.offset < 0 else int(found.offset)

    def membership(self) -> object:
        """Who this member is now, for a transaction."""
        with translated():
            return self._consumer.consumer_group_metadata()

    def commit(self, offsets: Mapping[int, int], timeout: float) -> None:
        """Set the group's offsets: they are under way, and a poll says if that failed."""
        places = [self._at(partition, offset) for partition, offset in offsets.items()]
        with translated():
            self._consumer.commit(offsets=places, asynchronous=True)

    def close(self, timeout: float) -> None:
        """Leave the group, unless a static member."""
        self._closing = True
        close_within(timeout, self._consumer)

    def _at(self, partition: int, offset: int = -1001) -> Any:
        return self._confluent.TopicPartition(self.topic, partition, offset)


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
        self._confluent = confluent = extras.confluent()
        self._topic = ""
        self._positions: dict[int, int] = {}
        self._failure: ClientFailed | None = None
        settings = {
            **arguments(connection),
            **_FETCH,
            "group.id": _ALONE,
            "auto.offset.reset": "earliest",
        }
        level = "read_committed" if committed else "read_uncommitted"
        with translated():
            self._consumer = confluent.Consumer({**settings, "isolation.level": level}, logger=_LOG)
            self._ends = confluent.Consumer(
                {**settings, "isolation.level": "read_uncommitted"}, logger=_LOG
            )

    def partitions(self, topic: str) -> set[int]:
        """Those of a topic; none if it does not exist."""
        with translated():
            found = self._ends.list_topics(topic, timeout=PATIENCE).topics.get(topic)
        return set() if found is None or found.error is not None else set(found.partitions)

    def bounds(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """First offset and high watermark of each partition."""
        at = [self._confluent.TopicPartition(topic, each) for each in partitions]
        with translated():
            # Not the last stable offset: a transaction may be committed, its marker to come.
            return {
                each.partition: self._ends.get_watermark_offsets(each, timeout=PATIENCE)
                for each in at
            }

    def start(self, topic: str, places: Mapping[int, int]) -> None:
        """Read from these offsets on."""
        self._topic = topic
        self._positions = dict(places)
        at = [self._confluent.TopicPartition(topic, each, to) for each, to in places.items()]
        with translated():
            self._consumer.assign(at)

    def poll(self, timeout: float, most: int = 10_000) -> dict[int, Records]:
        """Records, by partition."""
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        with translated():
            messages = self._consumer.consume(most, timeout)
        found = by_partition(messages)
        self._failure = found.failure
        found.move(self._positions)
        return found.records

    def position(self, partition: int) -> int:
        """How far it came: past markers and records of aborted transactions too."""
        return self._positions.get(partition, 0)

    def close(self) -> None:
        """Let go of the connections."""
        close_within(PATIENCE, self._consumer, self._ends)


_LOG = logging.getLogger("confluent_kafka")


def close_within(timeout: float, *consumers: Any) -> None:
    """Close consumers, and wait no longer than that."""
    kafka_exception = extras.confluent().KafkaException

    def close() -> None:
        for each in consumers:
            with suppress(kafka_exception):  # the brokers find out by themselves
                each.close()

    thread = threading.Thread(target=close, name="closing", daemon=True)
    thread.start()
    thread.join(timeout)
