"""What the connector asks of a Kafka client; `clients` has those that offer it.

Every call that fails raises `ClientFailed`, which says what that means.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from stream_leip_connectors.kafka.records import Message, Records

Assignment = Literal["cooperative", "eager"]
Delivery = Literal["exactly-once", "at-least-once"]
Meaning = Literal["retry", "left", "displaced", "fenced", "corrupt", "range", "refused"]
# Of one record; brokers take 1 MiB unless told otherwise.
MOST_BYTES = 1 << 20


class ClientFailed(Exception):
    """A call failed, and what that means.

    "retry": it may work later, or with a new client. "left": the group went on without this member.
    "displaced": the group has another member of this one's name. "fenced": another process writes
    under this one's name. "corrupt": records that no client can read.
    "range": the broker has let go of what was to be read. "refused": it will never work.
    """

    def __init__(self, meaning: Meaning, why: str) -> None:
        super().__init__(why)
        self.meaning = meaning


class Sending(NamedTuple):
    """A message and where it goes; a partition of None is chosen by the key."""

    topic: str
    partition: int | None
    message: Message


class Member(NamedTuple):
    """How a consumer is a member of its group.

    Parameters
    ----------
    group
        The group's name.
    instance
        The name of a static member; None for a dynamic one.
    assignment
        How partitions move when members come and go.
    session
        Seconds after which a silent member is given up.
    """

    group: str
    instance: str | None
    assignment: Assignment
    session: float


class Listener(NamedTuple):
    """Called inside `poll` and `close` with partitions; of the consumer it may only commit."""

    on_assigned: Callable[[set[int]], None]
    on_revoked: Callable[[set[int]], None]
    on_lost: Callable[[set[int]], None]


class GroupConsumer(Protocol):
    """A member of a consumer group that reads one topic.

    A partition that was assigned is paused: its first records come after `seek` and `resume`.
    """

    @property
    def topic(self) -> str:
        """What it reads."""

    def poll(self, timeout: float) -> Mapping[int, Records]:
        """What came, by partition; rebalances happen in here."""

    def pause(self, partitions: Iterable[int]) -> None:
        """Read no more of these."""

    def resume(self, partitions: Iterable[int]) -> None:
        """Read these again."""

    def seek(self, partition: int, offset: int) -> None:
        """Go on at an offset."""

    def position(self, partition: int) -> int | None:
        """Where it goes on, past markers and the like; None if that is not known."""

    def high_watermark(self, partition: int) -> int | None:
        """The offset that the next event will have; None before the first fetch."""

    def committed(self, partition: int) -> int | None:
        """The group's offset, once no transaction is about to change it."""

    def membership(self) -> object:
        """Who this member is now, for a transaction of the same client."""

    def commit(self, offsets: Mapping[int, int], timeout: float) -> None:
        """Set the group's offsets; inside a listener, they may be under way when it returns."""

    def close(self, timeout: float) -> None:
        """Leave the group, unless a static member."""


class TopicReader(Protocol):
    """Reads partitions of one topic, without a group."""

    def partitions(self, topic: str) -> set[int]:
        """Those of a topic; none if it does not exist."""

    def bounds(self, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
        """First offset and high watermark of each partition."""

    def start(self, topic: str, places: Mapping[int, int]) -> None:
        """Read from these offsets on."""

    def poll(self, timeout: float, most: int = ...) -> Mapping[int, Records]:
        """Records, by partition, no more than `most`."""

    def position(self, partition: int) -> int:
        """How far it came: past markers and records of aborted transactions too."""

    def close(self) -> None:
        """Let go of the connections."""


class Producer(Protocol):
    """Writes what a worker has done, and the offsets that this brings it to."""

    def commit(
        self,
        stages: Sequence[Sequence[Sending]],
        consumer: GroupConsumer,
        offsets: Mapping[int, int],
        timeout: float,
    ) -> None:
        """Write all stages, then the consumer's offsets.

        After `ClientFailed` nobody knows how much was written: close, and make another producer of
        the same name; then the topics tell.
        """

    def close(self, timeout: float) -> None:
        """Let go of it, and wait no longer than that."""


class Admin(Protocol):
    """Makes, looks at and deletes topics and groups."""

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """How many each topic has, of those that exist."""

    def setting(self, topic: str, name: str) -> str:
        """One of a topic's settings."""

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, unless it is there already."""

    def delete(self, topic: str) -> None:
        """Delete a topic."""

    def delete_group(self, group: str) -> bool:
        """Delete a group, if there is one; whether it had no members left."""

    def close(self) -> None:
        """Let go of the connections."""


class Client(Protocol):
    """Makes all of these."""

    @property
    def bootstrap(self) -> str:
        """Where the brokers are."""

    def check_reach(self) -> None:
        """Connect once; BrokerError, with the reason and the remedy, if that fails."""

    def consumer(self, topic: str, member: Member, most: int, listener: Listener) -> GroupConsumer:
        """A consumer whose polls bring no more records than `most`."""

    def reader(self, *, committed: bool = True) -> TopicReader:
        """A reader of what is committed, or of what is open or aborted too."""

    def producer(self, name: str, timeout: float, delivery: Delivery) -> Producer:
        """A producer, once nothing that the last one of its name left open can be committed.

        With transactions, brokers abort those that are left open for longer than `timeout`. At
        least once there are none: stage after stage is written.
        """

    def admin(self) -> Admin:
        """An admin."""
