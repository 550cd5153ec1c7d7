"""The worker: a member of the group, its tasks, and one transaction for each commit interval."""

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from stream_leip import Update
from stream_leip_connectors.kafka.client import (
    Assignment,
    GroupConsumer,
    Producer,
    Sending,
    TopicReader,
    corrupt_batches,
)
from stream_leip_connectors.kafka.connection import PATIENCE, ClientFailed, Connection
from stream_leip_connectors.kafka.errors import BrokerError, FencedError, RetentionLoss
from stream_leip_connectors.kafka.outage import Outage
from stream_leip_connectors.kafka.restoring import Restorer, Situation, read_changelog
from stream_leip_connectors.kafka.task import Counts, Identity, Task

log = logging.getLogger("stream_leip.kafka")

# Updates and dead letters that may wait for a commit; more, and it comes early.
_MOST_WAITING = 20_000


@dataclass(frozen=True)
class Topics:
    """Names: where events come from, where updates, dead letters (None: nowhere) and state go."""

    input: str
    updates: str
    letters: str | None
    changelog: str


@dataclass(frozen=True)
class Membership:
    """How a worker is a member of its group.

    Parameters
    ----------
    group
        The consumer group: the application's name.
    instance
        A name of its own that stays over restarts; None for none.
    assignment
        How partitions move when members come and go.
    session
        Seconds after which a silent member is given up.
    commit
        Seconds from one transaction to the next.
    transaction
        Seconds after which the brokers abort a transaction that a dead worker left open.
    """

    group: str
    instance: str | None = None
    assignment: Assignment = "cooperative"
    session: float = 45.0
    commit: float = 1.0
    transaction: float = 10.0


class Worker:
    """Reads its partitions, feeds their tasks, and commits.

    Parameters
    ----------
    connection, topics, partitions
        Where, what, and how many partitions the input has.
    membership
        As which member.
    restorer
        Makes tasks.
    asked
        Whether to stop.

    Attributes
    ----------
    on_committed
        Called with the updates of each transaction, once it is committed.
    """

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        partitions: int,
        membership: Membership,
        restorer: Restorer,
        asked: Callable[[], bool],
    ) -> None:
        self.tasks: dict[int, Task] = {}
        self.lags: dict[int, int] = {}
        self.beat = time.monotonic()  # of its loop
        self.on_committed: Callable[[list[Update]], None] | None = None
        self.total = Counts()  # committed
        self.commits = 0
        self.commit_seconds = 0.0
        self.restores = 0
        self.restore_seconds = 0.0
        self._connection = connection
        self._topics = topics
        self._partitions = partitions
        self._member = membership
        self._restorer = restorer
        self._asked = asked
        self._outage = Outage()
        # Two dynamic members are never of one name, so that none fences another.
        who = membership.instance or uuid.uuid4().hex
        self._name = f"{membership.group}-{who}"
        self._producer: Producer | None = None
        self._assigned: set[int] = set()  # of these, some wait for their task
        self._due = 0.0
        self._polled = False

    def run(self) -> None:
        """Work until asked to stop; then commit, and leave the group."""
        while True:
            self._consumer = self._join()
            try:
                self._work()
            except ClientFailed as error:
                self._judge(error)
            else:
                break
            finally:
                self._leave()

    def _join(self) -> GroupConsumer:
        while True:
            try:
                return GroupConsumer(
                    self._connection,
                    self._topics.input,
                    self._member.group,
                    instance=self._member.instance,
                    assignment=self._member.assignment,
                    session=self._member.session,
                    most=10_000,
                    on_assigned=self._on_assigned,
                    on_revoked=self._on_revoked,
                    on_lost=self._on_lost,
                )
            except ClientFailed as error:
                self._wait(error)

    def _work(self) -> None:
        self._due = time.monotonic() + self._member.commit
        while not self._asked():
            self._restore()
            self.beat = time.monotonic()
            for partition, records in self._consumer.poll(self._pause()).items():
                task = self.tasks.get(partition)
                if task is not None:
                    task.take(records)
            self._polled = True
            if time.monotonic() >= self._due or self._waiting() > _MOST_WAITING:
                self.lags = self.lag()
                self._commit_until_done()
        self._commit_last()

    def _pause(self) -> float:
        """How long a poll may wait."""
        return min(max(self._due - time.monotonic(), 0.0), 0.2)

    def _waiting(self) -> int:
        return sum(len(task.updates) + len(task.letters) for task in self.tasks.values())

    # Commits

    def _commit(self, timeout: float) -> None:
        """Write what changed, in one transaction; ClientFailed if nobody knows whether it was."""
        tasks = [task for task in self.tasks.values() if task.dirty]
        self._due = time.monotonic() + self._member.commit
        if not tasks:
            return
        started = time.monotonic()
        producer = self._own_producer()
        topics = self._topics
        sendings: list[Sending] = []
        updates = [update for task in tasks for update in task.updates]
        # 1. The prior updates and the dead letters.
        for task in tasks:
            outputs = task.outputs(topics.updates, topics.letters)
            sendings += [Sending(topic, None, message) for topic, message in outputs]
        # 2. New rows, in chunks, and tombstones for those that left the scope;
        # 3. small states of the keys that saw events, and always a head for each task.
        for task in tasks:
            partition = task.identity.partition
            sendings += [Sending(topics.changelog, partition, each) for each in task.changes()]
        # 4. The input offsets.
        offsets = {task.identity.partition: task.offset for task in tasks}
        membership = self._consumer.membership()
        producer.transact(sendings, topics.input, offsets, membership, timeout)
        for task in tasks:
            self.total.add(task.counts, task.committed)
            task.committed = replace(task.counts)
        self.commits += 1
        self.commit_seconds += time.monotonic() - started
        self._outage.over()
        if self.on_committed is not None:
            self.on_committed(updates)

    def _commit_until_done(self) -> None:
        """Commit; if that fails, go back to what is committed and read again from there."""
        try:
            self._commit(min(self._member.transaction, PATIENCE))
        except ClientFailed as error:
            self._judge(error)
            self._go_back()

    def _go_back(self) -> None:
        """Forget the tasks: they are restored from what was committed."""
        self._drop_producer()
        self._consumer.pause(self.tasks.keys() & self._assigned)
        self.tasks.clear()

    def _commit_last(self) -> None:
        try:
            self._commit(PATIENCE)
        except ClientFailed as error:
            log.warning("the last commit failed; the next start reads it again: %s", error)
            self.tasks.clear()
            self._drop_producer()

    def _own_producer(self) -> Producer:
        """The producer; a new one ends what the one before it left open."""
        if self._producer is None:
            self._producer = Producer(self._connection, self._name, self._member.transaction)
        return self._producer

    def _drop_producer(self, wait: float = 0.0) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(wait)

    def _judge(self, error: ClientFailed) -> None:
        """Raise what no waiting helps against; else say it, and wait a little."""
        if error.meaning == "fenced" and self._member.instance is not None:
            raise FencedError(
                f"instance {self._member.instance!r} of group {self._member.group!r} runs "
                f"somewhere else too ({error}); give each process an --instance of its own"
            ) from error
        if error.meaning == "refused":
            raise BrokerError(f"the broker refuses: {error}") from error
        if error.meaning == "range":
            raise RetentionLoss(
                f"{self._topics.input}: events were deleted by the topic's retention before they "
                f"were read ({error}). Start again with --on-retention-loss continue to go on "
                "without them"
            ) from error
        if error.meaning == "corrupt":
            self._skip_corrupt(error)
        elif error.meaning == "retry":
            self._wait(error)

    def _wait(self, error: ClientFailed) -> None:
        self._outage.say(str(error))
        until = time.monotonic() + self._outage.pause()
        while time.monotonic() < until and not self._asked():
            self.beat = time.monotonic()
            time.sleep(0.05)

    def _skip_corrupt(self, error: ClientFailed) -> None:
        """Write a dead letter for records that no client can read, and go on after them."""
        positions = {partition: task.offset for partition, task in self.tasks.items()}
        found = corrupt_batches(self._connection, self._topics.input, positions)
        if not found:
            raise error  # not the records, then: what it is, a person must see
        for batch in found:
            log.error("%s; a dead letter says so", batch)
            self.tasks[batch.partition].skip(batch)
        self._commit_until_done()

    # Tasks

    def _restore(self) -> None:
        """Make the tasks of partitions that were assigned."""
        wanted = sorted(self._assigned - self.tasks.keys())
        if not wanted:
            return
        started = time.monotonic()
        try:
            made = self._restored(wanted)
        except ClientFailed as error:
            self._judge(error)
            return
        for partition, task in made.items():
            self.tasks[partition] = task
            self._consumer.seek(partition, task.offset)
        self._consumer.resume(made.keys())
        self._outage.over()
        took = time.monotonic() - started
        if made:
            self.restores += 1
            self.restore_seconds += took
            log.info("restored partitions %s in %.1f s", wanted, took)

    def _restored(self, wanted: list[int]) -> dict[int, Task]:
        # First a transaction of ours that was given up must be ended for good; then the offsets;
        # then the changelog, which has all that is committed.
        self._own_producer()
        committed = {each: self._consumer.committed(each) for each in wanted}
        reader = TopicReader(self._connection)
        try:
            bounds = reader.bounds(self._topics.input, wanted)
            contents = read_changelog(reader, self._topics.changelog, wanted, self._asked)
        finally:
            reader.close()
        if contents is None:
            return {}
        group, topic = self._member.group, self._topics.input
        return {
            each: self._restorer.task(
                Identity(group, topic, self._partitions, each),
                Situation(committed[each], *bounds[each]),
                contents[each],
            )
            for each in wanted
        }

    # Rebalances, inside the consumer's poll

    def _on_assigned(self, partitions: set[int]) -> None:
        self._assigned |= partitions

    def _on_revoked(self, partitions: set[int]) -> None:
        """Commit what is done, so that the next owner goes on from there."""
        self._assigned -= partitions
        try:
            if partitions & self.tasks.keys():
                self._commit(min(self._member.session / 2, PATIENCE))
        except ClientFailed as error:
            log.warning("a commit before partitions go failed; they are read again: %s", error)
            self._drop_producer()
            # Those that stay are ahead of what is committed: they are restored.
            self.tasks.clear()
        for partition in partitions:
            self.tasks.pop(partition, None)

    def _on_lost(self, partitions: set[int]) -> None:
        """Another member has them already: what was not committed is its to do."""
        self._assigned -= partitions
        for partition in partitions:
            self.tasks.pop(partition, None)

    def _leave(self) -> None:
        self._consumer.close(PATIENCE / 2)
        self.tasks.clear()
        self._assigned.clear()
        self._drop_producer(PATIENCE / 4)

    def waiting_for(self) -> str | None:
        """What it waits for before it can work; None if it works."""
        if self._outage.on:
            return "waiting for Kafka"
        if not self._polled:
            return "joining the group"
        missing = sorted(self._assigned - self.tasks.keys())
        return f"restoring partitions {', '.join(map(str, missing))}" if missing else None

    def lag(self) -> dict[int, int]:
        """How many offsets each partition is behind, where that is known."""
        found: dict[int, Any] = {}
        for partition, task in list(self.tasks.items()):
            end = self._consumer.high_watermark(partition)
            if end is not None:
                found[partition] = max(end - task.offset, 0)
        return found
