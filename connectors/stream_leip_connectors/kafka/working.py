"""What a worker asks of a task, and of whoever makes tasks."""

from collections.abc import Iterator
from typing import Any, Protocol

from stream_leip import Update
from stream_leip_connectors.kafka.blueprint import Identity
from stream_leip_connectors.kafka.changelog import Contents
from stream_leip_connectors.kafka.corruption import CorruptBatch
from stream_leip_connectors.kafka.counts import Counts
from stream_leip_connectors.kafka.records import Message, Records
from stream_leip_connectors.kafka.restoring import Situation


class Keys(Protocol):
    """The keys of a task that have a monitor."""

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...


class Working(Protocol):
    """A partition's work: `Task`, or several of them side by side."""

    committed: Counts
    dirty: bool

    @property
    def identity(self) -> Identity:
        """Whose it is."""

    @property
    def offset(self) -> int:
        """The first record to take."""

    @property
    def counts(self) -> Counts:
        """What came so far."""

    @property
    def newest(self) -> int | None:
        """Timestamp of the last record taken."""

    @property
    def keyed(self) -> Keys:
        """Its keys."""

    @property
    def updates(self) -> list[Update]:
        """That wait for a commit."""

    @property
    def letters(self) -> list[Message]:
        """Dead letters that wait for a commit."""

    def told(self) -> list[Any]:
        """What people were told of its keys, and has not settled, as `Notices` has it."""

    def take(self, records: Records) -> None:
        """Feed the monitors."""

    def advance(self, now: float, *, at_end: bool) -> None:
        """Time goes on, by a clock; `at_end` if all events there are have been taken."""

    def skip(self, batch: CorruptBatch) -> None:
        """Leave out records that nobody can read."""

    def outputs(self, updates: str, letters: str | None) -> Iterator[tuple[str, Message]]:
        """The updates and the dead letters since the last commit, each with its topic."""

    def changes(self) -> Iterator[Message]:
        """What changed since the last commit."""


class Making(Protocol):
    """Makes the task of a partition."""

    @property
    def clocked(self) -> bool:
        """Whether its tasks go by a clock too."""

    def task(self, identity: Identity, found: Situation, contents: Contents) -> Working:
        """The task as the last committed transaction left it; StateError if it cannot be."""
