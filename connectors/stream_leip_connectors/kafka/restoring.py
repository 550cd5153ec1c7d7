"""Restoring tasks: what their changelog holds, held against the group's offsets."""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from stream_leip import SnapshotError
from stream_leip.settings import from_plain
from stream_leip_connectors.kafka.blueprint import Blueprint, Identity
from stream_leip_connectors.kafka.changelog import Contents, Head, Held
from stream_leip_connectors.kafka.client import ClientFailed, Delivery, TopicReader
from stream_leip_connectors.kafka.decoding import RecordDecoder
from stream_leip_connectors.kafka.errors import RetentionLoss, StateError
from stream_leip_connectors.kafka.task import Task
from stream_leip_connectors.window_text import write_window

log = logging.getLogger("stream_leip.kafka")

OnLoss = Literal["stop", "continue"]
Start = Literal["earliest", "latest"]
# A transaction that nobody ends is aborted by the broker long before.
_PATIENCE = 120.0


def read_changelog(
    reader: TopicReader,
    topic: str,
    partitions: Iterable[int],
    asked: Callable[[], bool],
    delivery: Delivery = "exactly-once",
) -> dict[int, Contents] | None:
    """What the partitions hold up to their high watermark now; None if asked to stop."""
    bounds = reader.bounds(topic, partitions)
    torn = delivery == "at-least-once"
    held = {partition: Held(torn=torn) for partition in bounds}
    left = {partition for partition, (first, end) in bounds.items() if first < end}
    if left:
        reader.start(topic, {partition: bounds[partition][0] for partition in left})
    moved = time.monotonic()
    while left and not asked():
        for partition, records in reader.poll(0.2).items():
            held[partition].take(records)
            moved = time.monotonic()
        left = {each for each in left if reader.position(each) < bounds[each][1]}
        if time.monotonic() - moved > _PATIENCE:
            raise ClientFailed("retry", "the changelog's end is inside a transaction that is open")
    return None if left else {partition: each.contents() for partition, each in held.items()}


@dataclass(frozen=True)
class Situation:
    """What is known of a partition when it is assigned.

    Parameters
    ----------
    committed
        The group's offset; None where it has none.
    first, end
        The offsets that the input has.
    """

    committed: int | None
    first: int
    end: int


@dataclass(frozen=True)
class Restorer:
    """Makes tasks of what their changelog holds.

    Parameters
    ----------
    blueprint, decoder
        Of every task.
    changelog
        The topic's name, for messages.
    start
        Where a group without offsets begins.
    on_loss
        Whether to go on where events were deleted before they were read.
    adopt
        Whether to close the panes of another profile, or of other settings, and start clean.
    idle
        As for a task.
    delivery
        Whether the group's offsets are in one transaction with the state.
    kind
        Of the tasks.
    """

    blueprint: Blueprint
    decoder: RecordDecoder
    changelog: str
    start: Start = "earliest"
    on_loss: OnLoss = "stop"
    adopt: bool = False
    idle: float | None = None
    delivery: Delivery = "exactly-once"
    kind: Callable[..., Task] = Task

    @property
    def clocked(self) -> bool:
        """Whether its tasks go by a clock too."""
        return self.idle is not None or self.kind is not Task

    def task(self, identity: Identity, found: Situation, contents: Contents) -> Task:
        """The task as the last committed transaction left it; StateError if it cannot be."""
        where = f"{self.changelog}, partition {identity.partition}"
        try:
            head = contents.head(identity.model)
            if head is None:
                return self._new(identity, found, contents, where)
            self._check_owner(identity, head, where)
            if not self._fits(head.offset, found.committed):
                raise StateError(
                    f"{where}: the state is at input offset {head.offset}, but group "
                    f"{identity.application!r} has committed {found.committed}: something else "
                    "moved one of them. Bring both back from the same backup, or begin anew with "
                    "'stream-leip kafka reset'"
                )
            if self._is_ours(head):
                task = self._restored(identity, self.blueprint, head, contents)
            else:
                task = self._adopted(identity, head, contents, where)
        except SnapshotError as error:
            raise StateError(
                f"{where}: {error}. Bring back a whole one, or begin anew with 'stream-leip kafka "
                "reset'"
            ) from error
        # Where no event may ever come again, the next commit still brings the group's offset here.
        task.dirty = task.dirty or head.offset != found.committed
        self._check_retention(task, found)
        return task

    def _fits(self, state: int, committed: int | None) -> bool:
        """Whether an offset of the state may go with the group's.

        Without transactions the offsets are written last: the state may be ahead, and it counts.
        """
        ahead = committed is None or state > committed
        return state == committed or (ahead and self.delivery == "at-least-once")

    def _new(self, identity: Identity, found: Situation, contents: Contents, where: str) -> Task:
        if found.committed is not None or len(contents):
            what = "records of something else" if len(contents) else "no state"
            raise StateError(
                f"{where}: there is {what}, but group {identity.application!r} has committed "
                f"offset {found.committed}. Name the changelog topic that belongs to the group, "
                "or another group; or begin anew with 'stream-leip kafka reset'"
            )
        offset = found.first if self.start == "earliest" else found.end
        task = self.begin(identity, offset)
        task.write_over(contents)
        return task

    def begin(self, identity: Identity, offset: int) -> Task:
        """A task without a past."""
        return self.kind(identity, self.blueprint, self.decoder, offset, idle=self.idle)

    def _check_owner(self, identity: Identity, head: Head, where: str) -> None:
        theirs, ours = (head.application, head.topic), (identity.application, identity.topic)
        if theirs != ours:
            raise StateError(
                f"{where}: the state of group {theirs[0]!r} on topic {theirs[1]!r}, not of "
                f"{ours[0]!r} on {ours[1]!r}; name a changelog topic of its own for each"
            )
        if "models" in head.settings:
            raise StateError(
                f"{where}: the state of several models, {', '.join(head.settings['models'])}; name "
                "each with --profile NAME=PATH, or begin anew with 'stream-leip kafka reset'"
            )
        if head.partitions != identity.partitions:
            raise StateError(
                f"{where}: the state is of {head.partitions} partitions, but {identity.topic!r} "
                f"has {identity.partitions} now, so that keys may have moved between them. Begin "
                "anew with 'stream-leip kafka reset'"
            )

    def _is_ours(self, head: Head) -> bool:
        """Whether profile and settings are those of the state; StateError unless adopting."""
        ours = self.blueprint.profile.fingerprint
        if head.profile != ours:
            if not self.adopt:
                raise StateError(
                    f"{self.changelog}: the state of profile {head.profile[:12]}, not of "
                    f"{ours[:12]}; use the profile it was made with, or close its panes and start "
                    "clean with --adopt"
                )
            return False
        for name, now in self.blueprint.settings().items():
            if head.settings.get(name) != now:
                if not self.adopt:
                    raise StateError(
                        f"{self.changelog}: made with {name} "
                        f"{_said(name, head.settings.get(name))}, not {_said(name, now)}; leave "
                        "that as it was, or close its panes and start clean with "
                        "--adopt"
                    )
                return False
        return True

    def _restored(
        self, identity: Identity, blueprint: Blueprint, head: Head, contents: Contents
    ) -> Task:
        return self.kind(
            identity, blueprint, self.decoder, head.offset, contents, head, idle=self.idle
        )

    def _adopted(self, identity: Identity, head: Head, contents: Contents, where: str) -> Task:
        """A clean task, that has the last updates of the old one to write."""
        profile = contents.profile(identity.model)
        if profile.fingerprint != head.profile:
            raise SnapshotError(f"{where}: its profile is not the one of its state")
        before = self._restored(identity, Blueprint.of(profile, head.settings), head, contents)
        task = Task(identity, self.blueprint, self.decoder, head.offset, idle=self.idle)
        task.take_over(contents, before.close_panes(), before)
        return task

    def _check_retention(self, task: Task, found: Situation) -> None:
        """Notice events that are gone, before or after the offset."""
        topic, partition = task.identity.topic, task.identity.partition
        if task.offset > found.end:
            raise StateError(
                f"{topic}, partition {partition}: ends at offset {found.end}, but the state is "
                f"at {task.offset}: the topic was made anew, or lost what it had. Begin anew with "
                "'stream-leip kafka reset'"
            )
        if task.offset >= found.first:
            return
        if self.on_loss == "stop":
            raise RetentionLoss(
                f"{topic}, partition {partition}: offsets {task.offset} to {found.first - 1} were "
                "deleted by the topic's retention before they were read. Bring them back, or go on "
                "without them with --on-retention-loss continue"
            )
        lost = found.first - task.offset
        log.warning(
            "%s, partition %d: %d events were deleted by the topic's retention before they were "
            "read; going on without them",
            topic,
            partition,
            lost,
            extra={"partition": partition, "offset": task.offset, "last_offset": found.first - 1},
        )
        task.counts.lost += lost
        task.offset = found.first
        task.dirty = True


def _said(name: str, value: Any) -> Any:
    """A setting of a state, as people write it."""
    if name != "window" or value is None:
        return value
    return repr(write_window(from_plain("window", value)))
