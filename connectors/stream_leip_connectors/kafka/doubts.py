"""Commits that were asked for, until somebody knows whether they happened."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stream_leip import Update
from stream_leip_connectors.kafka.counts import Counts
from stream_leip_connectors.kafka.records import Message
from stream_leip_connectors.kafka.working import Working


@dataclass(frozen=True)
class Share:
    """What a task has in a transaction: its counts then and before, and what it wrote."""

    counts: Counts
    before: Counts
    updates: list[Update]
    letters: list[Message]

    @classmethod
    def of(cls, task: Working) -> "Share":
        """The share of a task that is about to be written."""
        return cls(
            replace(task.counts), replace(task.committed), list(task.updates), list(task.letters)
        )


class Doubts:
    """Shares of the last transaction, by partition.

    A broker that goes away in the middle of a commit may have finished it all the same. Then the
    restored state has its counts, and only then may it be counted and told.
    """

    def __init__(self) -> None:
        self._shares: dict[int, Share] = {}

    def begin(self, shares: Mapping[int, Share]) -> None:
        """A transaction is about to be committed."""
        self._shares.update(shares)

    def settle(self, partitions: Iterable[int]) -> dict[int, Share]:
        """The shares of partitions of which it is known that they were committed."""
        return {each: self._shares.pop(each) for each in partitions if each in self._shares}

    def restored(self, tasks: Mapping[int, Working]) -> dict[int, Share]:
        """Tasks were restored: the shares that are in their state; the others were aborted."""
        found = self.settle(tasks)
        return {each: it for each, it in found.items() if tasks[each].committed == it.counts}

    def drop(self, partitions: Iterable[int]) -> None:
        """Partitions went to another member, who restores them."""
        for each in partitions:
            self._shares.pop(each, None)
