"""The worker: a member of the group, its tasks, and one transaction for each commit interval."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from stream_leip import Update
from stream_leip_connectors.kafka.application import Membership, Topics
from stream_leip_connectors.kafka.assigning import Assigning
from stream_leip_connectors.kafka.backlog import Backlog
from stream_leip_connectors.kafka.burials import Burials
from stream_leip_connectors.kafka.client import (
    Client,
    ClientFailed,
    GroupConsumer,
    Listener,
    Sending,
)
from stream_leip_connectors.kafka.connection import PATIENCE
from stream_leip_connectors.kafka.corruption import find_corrupt
from stream_leip_connectors.kafka.counts import Counts
from stream_leip_connectors.kafka.doubts import Doubts, Share
from stream_leip_connectors.kafka.judging import final
from stream_leip_connectors.kafka.lags import at_end, lags_of
from stream_leip_connectors.kafka.outage import Displacement, Outage
from stream_leip_connectors.kafka.producing import OwnProducer
from stream_leip_connectors.kafka.records import Records
from stream_leip_connectors.kafka.working import Making, Working

log = logging.getLogger("stream_leip.kafka")

# Updates and dead letters that may wait for a commit; more, and it comes early.
_MOST_WAITING = 20_000
_MOST_POLLED = 10_000
# Seconds from one poll to the next, about.
_TURN = 0.5
# Seconds without events and commits after which brokers are asked whether they are there.
_SILENCE = 10.0


class Worker:
    """Reads its partitions, feeds their tasks, and commits.

    Parameters
    ----------
    client, topics, partitions
        By what, what, and how many partitions the input has.
    membership
        As which member.
    restorer
        Makes tasks.
    asked
        Whether to stop.

    Attributes
    ----------
    on_restored
        Called with each task that was made.
    on_committed
        Called with the updates of each transaction, once it is committed.
    """

    def __init__(
        self,
        client: Client,
        topics: Topics,
        partitions: int,
        membership: Membership,
        restorer: Making,
        asked: Callable[[], bool],
    ) -> None:
        self.tasks: dict[int, Working] = {}
        self.lags: dict[int, int] = {}
        self.beat = time.monotonic()  # of its loop
        self.on_restored: Callable[[Working], None] | None = None
        self.on_committed: Callable[[list[Update]], None] | None = None
        self.total = Counts()  # committed
        self.commits = 0
        self.commit_seconds = 0.0
        self.restores = 0
        self.restore_seconds = 0.0
        self.pauses = 0  # of reading, for work that takes long
        self._client = client
        self._topics = topics
        self._member = membership
        self._restorer = restorer
        self._asked = asked
        self._outage = Outage()
        self._burials = Burials()
        self._doubts = Doubts()
        self._producer = OwnProducer(client, membership)
        self._assigning = Assigning(client, topics, partitions, membership, restorer, asked)
        self._assigned: set[int] = set()  # of these, some wait for their task
        self._backlog = Backlog()
        self._full = False  # its partitions are paused, for the backlog
        self._due = 0.0
        self._heard = 0.0  # when the brokers last had something to say
        self._polled = False
        self._displacement = Displacement(membership.instance)

    def run(self) -> None:
        """Work until asked to stop; then commit, and leave the group."""
        while True:
            consumer = self._join()
            if consumer is None:
                self._producer.drop(PATIENCE / 4)
                return
            self._consumer = consumer
            keep = False
            try:
                self._work()
            except ClientFailed as error:
                self._judge(error)
                # Another producer would hide from it that somebody else has its name.
                keep = error.meaning == "displaced"
            else:
                break
            finally:
                self._leave(keep=keep)

    def _join(self) -> GroupConsumer | None:
        """A new member; None if asked to stop before it could be."""
        member = self._member.member()
        listener = Listener(self._on_assigned, self._on_revoked, self._on_lost)
        while not self._asked():
            try:
                if member.instance is not None:
                    self._producer.own()  # first: who had this name before can write no more
                return self._client.consumer(self._topics.input, member, _MOST_POLLED, listener)
            except ClientFailed as error:
                if error.meaning != "retry":
                    self._judge(error)
                self._wait(error)
        return None

    def _work(self) -> None:
        self._due = time.monotonic() + self._member.commit
        while not self._asked():
            self._restore()
            self.beat = time.monotonic()
            self._read()
            self._polled = True
            if time.monotonic() >= self._due or self._waiting() > _MOST_WAITING:
                self.lags = lags_of(self._consumer, self.tasks, busy=bool(self._backlog))
                self._advance()
                self._commit_until_done()
                self._ask()
        self._commit_last()

    def _read(self) -> None:
        """Poll, and work on what came; what takes long waits for the next turn.

        Until then no more is read. But it polls: the group's affairs are done in there.
        """
        found = self._consumer.poll(0.0 if self._backlog else self._pause())
        if found:
            self._heard = time.monotonic()
        self._backlog.put(found)
        self._backlog.work(self._take, _TURN)
        if bool(self._backlog) == self._full:
            return
        self._full = not self._full
        self.pauses += self._full
        (self._consumer.pause if self._full else self._consumer.resume)(self.tasks.keys())

    def _take(self, partition: int, records: Records) -> None:
        if partition in self.tasks:
            self.tasks[partition].take(records)

    def _pause(self) -> float:
        """How long a poll may wait."""
        return min(max(self._due - time.monotonic(), 0.0), 0.2)

    def _advance(self) -> None:
        """Let time go on without events, where that is asked for."""
        if self._restorer.clocked:
            for partition, task in self.tasks.items():
                done = not self._backlog and at_end(self._consumer, partition)
                task.advance(time.monotonic(), at_end=done)

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
        producer = self._producer.own()
        topics = self._topics
        outputs: list[Sending] = []
        changes: list[Sending] = []
        shares = {task.identity.partition: Share.of(task) for task in tasks}
        # 1. The prior updates and the dead letters.
        for task in tasks:
            written = task.outputs(topics.updates, topics.letters)
            outputs += [Sending(topic, None, message) for topic, message in written]
        # 2. New rows, in chunks, and tombstones for those that left the scope;
        # 3. small states of the keys that saw events, and always a head for each task.
        for task in tasks:
            partition = task.identity.partition
            changes += [Sending(topics.changelog, partition, each) for each in task.changes()]
        # 4. The input offsets.
        offsets = {task.identity.partition: task.offset for task in tasks}
        self._doubts.begin(shares)
        producer.commit([outputs, changes], self._consumer, offsets, timeout)
        for task in tasks:
            task.committed = replace(task.counts)
        self._displacement.over()
        self._heard = time.monotonic()
        self.commits += 1
        self.commit_seconds += time.monotonic() - started
        self._outage.over()
        self._tell(self._doubts.settle(shares))

    def _tell(self, shares: Mapping[int, Share]) -> None:
        """Shares of a transaction are on the broker: count and tell them."""
        for share in shares.values():
            self.total.add(share.counts, share.before)
        self._burials.tell({each: share.letters for each, share in shares.items() if share.letters})
        if self.on_committed is not None:
            self.on_committed([update for share in shares.values() for update in share.updates])

    def _commit_until_done(self) -> None:
        """Commit; if that fails, go back to what is committed and read again from there."""
        try:
            self._commit(min(self._member.transaction, PATIENCE))
        except ClientFailed as error:
            if error.meaning == "displaced":
                # No commit of this member will do; as a new one it may, once this is ended.
                self._producer.drop()
                raise
            self._judge(error)
            self._go_back()

    def _ask(self) -> None:
        """After a silence, ask for something: a poll does not tell that the brokers are away."""
        if not self.tasks or time.monotonic() < self._heard + _SILENCE:
            return
        try:
            self._consumer.committed(min(self.tasks))
        except ClientFailed as error:
            if error.meaning == "displaced":
                raise
            self._judge(error)
        else:
            self._heard = time.monotonic()
            self._outage.over()

    def _go_back(self) -> None:
        """Forget the tasks: they are restored from what was committed."""
        self._producer.drop()
        self._consumer.pause(self.tasks.keys() & self._assigned)
        self._forget()

    def _commit_last(self) -> None:
        try:
            self._commit(PATIENCE)
        except ClientFailed as error:
            log.warning(
                "the last commit failed; the next start reads it again: %s",
                error,
                extra={"offsets": self._offsets()},
            )
            self.tasks.clear()
            self._producer.drop()

    def _offsets(self) -> dict[int, int]:
        """How far each task is, for the log."""
        return {partition: task.offset for partition, task in self.tasks.items()}

    def _judge(self, error: ClientFailed) -> None:
        """Raise what no waiting helps against; else say it, and wait a little."""
        again = error.meaning == "displaced" and self._displacement.again()
        end = final(error, self._member, self._topics.input, displaced=again)
        if end is not None:
            raise end from error
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
        found = find_corrupt(
            lambda: self._client.reader(committed=False), self._topics.input, positions
        )
        if not found:
            raise error  # not the records, then: what it is, a person must see
        for batch in found:
            where = {"partition": batch.partition, "offset": batch.first, "last_offset": batch.last}
            log.error("%s; a dead letter says so", batch, extra=where)
            self.tasks[batch.partition].skip(batch)
        self._commit_until_done()

    def _restore(self) -> None:
        """Make the tasks of partitions that were assigned."""
        wanted = sorted(self._assigned - self.tasks.keys())
        if not wanted:
            return
        started = time.monotonic()
        try:
            made = self._tasks_of(wanted)
        except ClientFailed as error:
            if error.meaning == "displaced":
                raise
            self._judge(error)
            return
        for partition, task in made.items():
            self.tasks[partition] = task
            self._consumer.seek(partition, task.offset)
        if not self._full:
            self._consumer.resume(made.keys())
        self._outage.over()
        took = time.monotonic() - started
        if made:
            self._tell(self._doubts.restored(made))  # first: the state says that it was told
            if self.on_restored is not None:
                for task in made.values():
                    self.on_restored(task)
            self.restores += 1
            self.restore_seconds += took
            offsets = {partition: task.offset for partition, task in made.items()}
            log.info("restored partitions %s in %.1f s", wanted, took, extra={"offsets": offsets})

    def _tasks_of(self, wanted: list[int]) -> dict[int, Working]:
        # First a transaction of ours that was given up must be ended for good; then the offsets;
        # then the changelog, which has all that is committed.
        self._producer.own()
        return self._assigning.tasks(wanted, self._consumer)

    # Rebalances, inside the consumer's poll

    def _on_assigned(self, partitions: set[int]) -> None:
        self._assigned |= partitions

    def _on_revoked(self, partitions: set[int]) -> None:
        """Commit what is done, so that the next owner goes on from there."""
        try:
            if partitions & self.tasks.keys():
                self._commit(min(self._member.session / 2, PATIENCE))
        except ClientFailed as error:
            log.warning(
                "a commit before partitions go failed; they are read again: %s",
                error,
                extra={"partitions": sorted(partitions), "offsets": self._offsets()},
            )
            self._producer.drop()
            # Those that stay are ahead of what is committed: they are restored.
            self._forget()
        self._on_lost(partitions)

    def _on_lost(self, partitions: set[int]) -> None:
        """Another member has them already: what was not committed is its to do."""
        self._assigned -= partitions
        self._backlog.drop(partitions)
        self._doubts.drop(partitions)
        for partition in partitions:
            self.tasks.pop(partition, None)

    def _forget(self) -> None:
        self._backlog.clear()
        self._full = False
        self.tasks.clear()

    def _leave(self, *, keep: bool) -> None:
        self._consumer.close(PATIENCE / 2)
        self._forget()
        self._assigned.clear()
        if not keep:
            self._producer.drop(PATIENCE / 4)

    def waiting_for(self) -> str | None:
        """What it waits for before it can work; None if it works."""
        if self._outage.on:
            return "waiting for Kafka"
        if not self._polled:
            return "joining the group"
        missing = sorted(self._assigned - self.tasks.keys())
        return f"restoring partitions {', '.join(map(str, missing))}" if missing else None
