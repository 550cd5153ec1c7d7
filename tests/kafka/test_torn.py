"""Without transactions a commit may be there in part: nothing is lost, and repeats are equal."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka import KafkaMonitor
from stream_leip_connectors.kafka.blueprint import Blueprint
from stream_leip_connectors.kafka.changelog import Contents, Held
from stream_leip_connectors.kafka.errors import StateError
from stream_leip_connectors.kafka.records import Message, Records
from stream_leip_connectors.kafka.restoring import Restorer, Situation
from stream_leip_connectors.kafka.task import Task

from stream_leip import Adaptive, InputError, KeyedMonitor, Sliding, SnapshotError, Tumbling
from tests.kafka.test_changelog import CASES, DECODER, IDENTITY, arrays, read, records
from tests.streams import PROFILE, plain

ALL = records(500, bad=7)


def contents(written: list[Message]) -> Contents:
    held = Held(torn=True)
    if written:
        held.take(read(written))
    return held.contents()


def restorer(window: Any, **options: Any) -> Restorer:
    blueprint = Blueprint(PROFILE, window, "auto", options)
    return Restorer(blueprint, DECODER, "log", delivery="at-least-once")


def some(first: int, events: int) -> Records:
    return ALL.some(range(first, min(first + events, len(ALL))))


def restored(restore: Restorer, log: list[Message], committed: int | None) -> Task:
    return restore.task(IDENTITY, Situation(committed, 0, 10**6), contents(log))


class Worker:
    """Writes as the producer does: updates, the changelog, the group's offset."""

    def __init__(self, restore: Restorer) -> None:
        self.restore = restore
        self.updates: list[Any] = []
        self.log: list[Message] = []
        self.committed: int | None = None
        self.task = restored(restore, self.log, None)

    def commit(self, kept: float | None) -> None:
        """All, or a share of the records before it is killed."""
        updates, _ = self.task.updates, list(self.task.outputs("priors", "letters"))
        changes = list(self.task.changes())
        whole = len(updates) + len(changes)
        left = whole + 1 if kept is None else round(kept * whole)
        self.updates += updates[:left]
        self.log += changes[: max(left - len(updates), 0)]
        if kept is None:
            self.committed = self.task.offset
        else:
            self.task = restored(self.restore, self.log, self.committed)


@pytest.mark.parametrize(("window", "options"), CASES, ids=str)
@settings(max_examples=12)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 150), st.none() | st.floats(0.0, 1.0)), min_size=1, max_size=12
    )
)
def test_whatever_a_kill_leaves(window: Any, options: dict[str, Any], steps: Any) -> None:
    worker = Worker(restorer(window, **options))
    for events, kept in [*steps, *[(200, None)] * 3]:
        batch = some(worker.task.offset, events)
        if len(batch):
            worker.task.take(batch)
        worker.commit(kept)
    assert worker.task.offset == len(ALL)
    keyed = KeyedMonitor(PROFILE, window, on_bad="skip", **options)
    expected = plain(keyed.update_many(*arrays(ALL)))
    if "max_keys" not in options:  # a key that comes back counts its updates anew
        wanted = {(each["key"], each["sequence"]): each for each in expected}
        found = plain(worker.updates)
        assert {(each["key"], each["sequence"]) for each in found} == wanted.keys()
        assert all(each == wanted[each["key"], each["sequence"]] for each in found)
    last = restored(worker.restore, worker.log, worker.committed)
    for key in keyed:
        assert last.keyed.monitor(key).snapshot() == keyed.monitor(key).snapshot()


def test_the_offsets_may_be_behind_and_never_ahead() -> None:
    worker = Worker(restorer(Sliding(count=40, every=10)))
    worker.task.take(some(0, 100))
    worker.commit(None)
    assert restored(worker.restore, worker.log, 60).offset == 100
    assert restored(worker.restore, worker.log, None).offset == 100
    # The next commit brings them here, though no event may ever come.
    assert restored(worker.restore, worker.log, 60).dirty
    assert not restored(worker.restore, worker.log, 100).dirty
    with pytest.raises(StateError, match=r"is at input offset 100, but .* has committed 101"):
        restored(worker.restore, worker.log, 101)


def test_records_that_were_compacted_away_are_missed() -> None:
    worker = Worker(restorer(Sliding(count=40, every=10)))
    worker.task.take(some(0, 100))
    worker.commit(None)
    small = next(each for each in worker.log if each.key and b"key" in each.key)
    before = [each for each in worker.log if each is not small]
    # A commit in part wrote over the small state, and the old one is gone.
    with pytest.raises(StateError, match=r"in part wrote over some, and they were compacted"):
        restored(worker.restore, [*before, small], 100)


def test_rows_that_two_processes_wrote() -> None:
    restore = restorer(Tumbling(count=400))
    one, other = Worker(restore), Worker(restore)
    one.task.take(some(0, 100))
    one.commit(None)
    one.task.take(some(100, 100))
    one.commit(None)
    other.task.take(some(0, 200))  # it was taken for dead, and wakes up
    other.commit(None)
    with pytest.raises(StateError, match="another process, taken for dead, wrote too"):
        restored(restore, one.log + other.log, 200)


def test_a_changelog_of_something_else_is_not_written_over() -> None:
    held = Held(torn=True)
    held.take(read([Message(b"theirs", b"x", [])]))
    with pytest.raises(SnapshotError, match="no key of stream-leip"):
        held.contents()


def test_the_head_is_the_last_record_also_of_an_adoption() -> None:
    worker = Worker(restorer(Adaptive(every=50)))
    worker.task.take(some(0, 100))
    worker.commit(None)
    blueprint = Blueprint(PROFILE, Tumbling(count=20))
    adopt = Restorer(blueprint, DECODER, "log", adopt=True, delivery="at-least-once")
    task = restored(adopt, worker.log, 100)
    changes = list(task.changes())
    assert changes[-1].key == worker.log[-1].key
    assert contents([*worker.log, *changes]).head() is not None


def test_the_clock_makes_no_updates_that_could_come_again_otherwise() -> None:
    given = KafkaSettings(delivery="at-least-once", idle=5.0)
    with pytest.raises(InputError, match=r"idle: 5 s, but without transactions"):
        KafkaMonitor(PROFILE, given, Tumbling(seconds=10.0))
