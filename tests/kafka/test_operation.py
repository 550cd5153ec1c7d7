"""What operators do to the connector, and what it does then, on the real broker."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from stream_leip_connectors.kafka import KafkaMonitor, LocalBroker
from stream_leip_connectors.kafka import worker as working
from stream_leip_connectors.kafka.errors import (
    FencedError,
    NobodyThere,
    RetentionLoss,
    StateError,
    TopicsError,
)
from stream_leip_connectors.kafka.monitor import reset

from benchmarks.chaos_worker import wait_until_read
from stream_leip import Adaptive, InputError, Sliding, Tumbling
from tests.commands import COMMAND, run
from tests.kafka.conftest import NewTopic
from tests.kafka.streams import (
    Running,
    all_taken,
    differences,
    draw,
    expected,
    messages,
    settings,
    written,
)
from tests.kafka.topics import read, write
from tests.strategies import make_profile
from tests.streams import PROFILE

pytestmark = [pytest.mark.needs_kafka, pytest.mark.usefixtures("client")]

WINDOW = Sliding(count=100, every=50)


def feed(bootstrap: str, topic: str, events: int = 2000, seed: int = 0) -> None:
    write(bootstrap, topic, messages(*draw(seed, events, 10)))


def watched(bootstrap: str, topic: str, events: int, window: Any = WINDOW, **more: Any) -> None:
    """Run until so many events more are taken."""
    options = {name: more.pop(name) for name in ("adopt", "profile") if name in more}
    profile = options.pop("profile", PROFILE)
    monitor = KafkaMonitor(profile, settings(bootstrap, topic, **more), window, **options)
    with Running(monitor) as one:
        one.until(lambda: monitor.total.events >= events)


def check(bootstrap: str, topic: str, window: Any = WINDOW) -> None:
    wanted = expected(bootstrap, topic, PROFILE, window)
    assert wanted
    assert differences(written(bootstrap, f"{topic}-priors"), wanted) == []


@pytest.mark.parametrize("window", [WINDOW, Adaptive(every=100), Tumbling(seconds=5.0)], ids=str)
def test_the_next_run_goes_on_where_the_last_one_ended(
    bootstrap: str, new_topic: NewTopic, window: Any
) -> None:
    topic = new_topic(2)
    for part in range(3):
        feed(bootstrap, topic, 1500, seed=part)
        watched(bootstrap, topic, 1500, window)
    check(bootstrap, topic, window)


@pytest.mark.parametrize("assignment", ["cooperative", "eager"])
def test_partitions_move_when_processes_come_and_go(
    bootstrap: str, new_topic: NewTopic, assignment: str
) -> None:
    topic = new_topic(4)
    given = settings(bootstrap, topic, assignment=assignment)
    feed(bootstrap, topic)
    first, second = (KafkaMonitor(PROFILE, given, WINDOW) for _ in range(2))
    with Running(first) as one:
        one.until(lambda: len(first.counts) == 4)
        with Running(second) as two:
            two.until(lambda: len(first.counts) == 2 and len(second.counts) == 2)
            feed(bootstrap, topic, seed=1)
            two.until(lambda: first.total.events + second.total.events >= 4000)
        one.until(lambda: len(first.counts) == 4)
        feed(bootstrap, topic, seed=2)
        one.until(lambda: first.total.events + second.total.events >= 6000)
    check(bootstrap, topic)


def test_partitions_are_paused_while_work_piles_up(
    bootstrap: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(working, "_TURN", 0.0)  # a piece of work, and then the next poll
    topic = new_topic(4)
    first, second = (KafkaMonitor(PROFILE, settings(bootstrap, topic), WINDOW) for _ in range(2))
    feed(bootstrap, topic, 6000)
    with Running(first) as one, Running(second):
        feed(bootstrap, topic, 6000, seed=1)
        one.until(lambda: first.total.events + second.total.events >= 12_000)
    assert sum(each.worker.pauses for each in (first, second) if each.worker) > 0
    check(bootstrap, topic)


def test_an_instance_that_comes_back_gets_its_partitions(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    for seed in range(2):
        feed(bootstrap, topic, seed=seed)
        began = time.monotonic()
        watched(bootstrap, topic, 2000, instance="one", session_timeout=25.0)
        assert time.monotonic() - began < 15.0  # not the session timeout
    check(bootstrap, topic)


def test_who_takes_anothers_name_ends_it(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    given = settings(bootstrap, topic, instance="one")
    first, second = (KafkaMonitor(PROFILE, given, WINDOW) for _ in range(2))
    with pytest.raises(FencedError, match="instance 'one' of group"), Running(first) as one:  # noqa: PT012
        feed(bootstrap, topic)
        one.until(lambda: first.total.events >= 2000)
        with Running(second) as two:
            two.until(lambda: len(second.counts) == 2)
            feed(bootstrap, topic, seed=1)
            two.until(lambda: second.total.events >= 2000)
            feed(bootstrap, topic, seed=2)
            two.until(lambda: second.total.events >= 4000)
    check(bootstrap, topic)


def test_a_name_that_nobody_else_has_is_kept(
    bootstrap: str, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(2)
    given = settings(bootstrap, topic, instance="one")
    monitor = KafkaMonitor(PROFILE, given, WINDOW)
    with Running(monitor) as one:
        feed(bootstrap, topic)
        one.until(lambda: monitor.total.events >= 2000)
        # The broker now knows the name with another member's id, as after a restart in between.
        other = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=given.group,
            group_instance_id="one",
            partition_assignment_strategy=[CooperativeStickyAssignor()],
            enable_auto_commit=False,
        )
        while not other.assignment():
            other.poll(100)
        other.close()
        feed(bootstrap, topic, seed=1)
        one.until(lambda: monitor.total.events >= 4000)
    assert "has a member named 'one' already; joining anew" in caplog.text
    check(bootstrap, topic)


def test_topics_are_checked(bootstrap: str, new_topic: NewTopic, admin: Any) -> None:
    topic = new_topic(2)
    with pytest.raises(TopicsError, match="input: topic 'nowhere' does not exist"):
        KafkaMonitor(PROFILE, settings(bootstrap, "nowhere")).run()
    with pytest.raises(TopicsError, match=rf"{topic}-priors.*--create-topics"):
        KafkaMonitor(PROFILE, settings(bootstrap, topic, create_topics=False)).run()
    one = new_topic(1, {"cleanup.policy": "compact"})
    with pytest.raises(TopicsError, match=r"has 1 partitions, but .* has 2"):
        KafkaMonitor(PROFILE, settings(bootstrap, topic, changelog=one)).run()
    deleted = new_topic(2)
    with pytest.raises(TopicsError, match=r"cleanup\.policy=delete"):
        KafkaMonitor(PROFILE, settings(bootstrap, topic, changelog=deleted)).run()


def test_more_partitions_need_a_reset(
    bootstrap: str, new_topic: NewTopic, admin: Any, tmp_path: Path
) -> None:
    topic = new_topic(2)
    feed(bootstrap, topic)
    watched(bootstrap, topic, 2000)
    admin.create_partitions({topic: 3})
    while len(admin.describe_topics([topic])[0]["partitions"]) < 3:
        time.sleep(0.1)
    with pytest.raises(TopicsError, match="kafka reset"):
        KafkaMonitor(PROFILE, settings(bootstrap, topic), WINDOW).run()
    given = ["--bootstrap", bootstrap, "--input", topic, "--group", f"{topic}-group"]
    done = run("kafka", "reset", *given, "--updates", f"{topic}-priors", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "forgot the offsets of group" in done.stderr
    assert not reset(settings(bootstrap, topic))  # there is no state any more
    watched(bootstrap, topic, 2000)


def test_partitions_that_are_added_while_it_runs(
    bootstrap: str, new_topic: NewTopic, admin: Any, client: str
) -> None:
    topic = new_topic(2)
    feed(bootstrap, topic)
    often = {
        "kafka-python": "metadata_max_age_ms",
        "confluent": "topic.metadata.refresh.interval.ms",
    }
    # Polls that end long before the group has settled: a client must not forget that it rejoins.
    given = settings(bootstrap, topic, commit_every=0.02)
    monitor = KafkaMonitor(PROFILE, given, WINDOW, client_options={often[client]: 300})

    def grow() -> None:
        with Running(monitor) as one:
            one.until(all_taken(monitor, 2000))
            admin.create_partitions({topic: 3})
            one.until(lambda: False)

    with pytest.raises(TopicsError, match=r"was given more partitions than the 2 .* kafka reset"):
        grow()


def test_a_group_with_members_is_not_reset(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    monitor = KafkaMonitor(PROFILE, settings(bootstrap, topic), WINDOW)
    given = ["--bootstrap", bootstrap, "--input", topic, "--group", f"{topic}-group", "--yes"]
    with Running(monitor) as one:
        one.until(lambda: len(monitor.counts) == 2)
        done = run("kafka", "reset", *given, cwd=tmp_path)
    assert done.returncode == 1
    assert "still has members" in done.stderr


def test_retention_that_was_faster(
    bootstrap: str, new_topic: NewTopic, admin: Any, caplog: pytest.LogCaptureFixture
) -> None:
    from kafka import TopicPartition

    topic = new_topic(1)
    feed(bootstrap, topic)
    watched(bootstrap, topic, 2000)
    feed(bootstrap, topic, seed=1)
    admin.delete_records({TopicPartition(topic, 0): 2500})
    with pytest.raises(RetentionLoss, match=r"2000 to 2499 .*--on-retention-loss continue"):
        watched(bootstrap, topic, 1500)
    watched(bootstrap, topic, 1500, on_retention_loss="continue")
    assert f"{topic}, partition 0: 500 events were deleted" in caplog.text


def test_another_profile_is_refused_or_adopted(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    feed(bootstrap, topic, 1990)
    watched(bootstrap, topic, 1990)
    before = written(bootstrap, f"{topic}-priors")
    other = make_profile(PROFILE.soft_prior[::-1].copy())
    feed(bootstrap, topic, seed=1)
    with pytest.raises(StateError, match=r"not of .*--adopt"):
        watched(bootstrap, topic, 2000, profile=other)
    watched(bootstrap, topic, 2000, profile=other, adopt=True)
    updates = read(bootstrap, f"{topic}-priors")
    assert len(updates) > len(before) + 10
    closing = written(bootstrap, f"{topic}-priors")
    last = {update["key"]: update["sequence"] for update in before}
    for key, sequence in last.items():
        mine = [update["sequence"] for update in closing if update["key"] == key]
        assert mine.count(sequence + 1) >= 1  # the last of the old, or one of the new
        assert mine.count(0) == 2  # of the old, and of the new
    watched(bootstrap, topic, 0, profile=other)


def test_bad_events_become_dead_letters(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    good = list(messages(*draw(0, 500, 5)))
    bad: list[dict[str, Any]] = [
        {"key": b"a", "value": b"{"},
        {"key": None, "value": b'{"scores": [0.2, 0.3, 0.5]}'},
        {"key": b"a", "value": b'{"scores": [0.2, 0.3]}', "headers": [("trace", b"7")]},
    ]
    write(bootstrap, topic, [*good[:200], *bad, *good[200:]])
    watched(bootstrap, topic, 503)
    letters = read(bootstrap, f"{topic}-dead-letters")
    assert sorted(letter.value for letter in letters) == sorted(each["value"] for each in bad)
    assert all(dict(letter.headers)["stream-leip.reason"] for letter in letters)


def worker(bootstrap: str, topic: str, folder: Path, *more: str) -> "subprocess.Popen[str]":
    PROFILE.save(folder / "profile.json")
    given = settings(bootstrap, topic)
    arguments = ["--bootstrap", bootstrap, "--input", topic, "--updates", given.updates]
    arguments += ["--group", given.group, "--create-topics", "--commit-every", "0.2"]
    return subprocess.Popen(
        [COMMAND, "kafka", "run", *arguments, "--window", "sliding 100 every 50", *more],
        cwd=folder, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path, number: int
) -> None:
    topic = new_topic(2)
    feed(bootstrap, topic)
    process = worker(bootstrap, topic, tmp_path)
    wait_until_read(bootstrap, topic, f"{topic}-group")
    began = time.monotonic()
    os.kill(process.pid, number)
    said = process.communicate(timeout=20)[1]
    assert process.returncode == 0, said
    assert time.monotonic() - began < 10.0
    assert "2,000 events" in said
    check(bootstrap, topic)


@pytest.mark.slow
def test_the_broker_goes_and_comes_back(
    broker: LocalBroker,
    caplog: pytest.LogCaptureFixture,
    client: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from benchmarks.chaos_worker import create

    create(broker.bootstrap, "t", 2)
    feed(broker.bootstrap, "t")
    given = settings(broker.bootstrap, "t", transaction_timeout=2.0)
    monitor = KafkaMonitor(PROFILE, given, WINDOW)
    with caplog.at_level("WARNING", "stream_leip.kafka"), Running(monitor) as one:
        one.until(all_taken(monitor, 1))
        monkeypatch.setattr(working, "_SILENCE", 1.0)
        broker.kill()
        # All was committed, and nothing comes: it finds out by itself.
        one.until(lambda: "Kafka is away" in caplog.text)
        assert monitor.worker is not None
        assert monitor.worker.waiting_for() == "waiting for Kafka"
        broker.start()
        one.until(lambda: "Kafka is back after" in caplog.text)
        feed(broker.bootstrap, "t", seed=1)
        one.until(lambda: monitor.total.events >= 4000, 60.0)
    check(broker.bootstrap, "t")


def test_a_broker_that_was_never_there(tmp_path: Path) -> None:
    given = settings("127.0.0.1:1", "t", wait=0.0)
    with pytest.raises(NobodyThere, match=r"127\.0\.0\.1:1"):
        KafkaMonitor(PROFILE, given).run()


@pytest.mark.slow
def test_a_broker_that_comes_later(broker: LocalBroker, caplog: pytest.LogCaptureFixture) -> None:
    from benchmarks.chaos_worker import create

    create(broker.bootstrap, "t", 2)
    feed(broker.bootstrap, "t")
    broker.stop()
    monitor = KafkaMonitor(PROFILE, settings(broker.bootstrap, "t"), WINDOW)
    with caplog.at_level("WARNING", "stream_leip.kafka"), Running(monitor) as one:
        one.until(lambda: "nobody listens there" in caplog.text)
        broker.start()
        one.until(lambda: monitor.total.events >= 2000)
    assert "Kafka is back after" in caplog.text
    check(broker.bootstrap, "t")


def test_windows_of_idle_keys_are_closed(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    window = Tumbling(seconds=1.0, lateness=1.0)
    feed(bootstrap, topic)
    monitor = KafkaMonitor(PROFILE, settings(bootstrap, topic, idle=5.0), window)
    wanted = expected(bootstrap, topic, PROFILE, window, until=100.0)
    with Running(monitor) as one:
        one.until(lambda: monitor.total.updates >= len(wanted))
    watched(bootstrap, topic, 0, window, idle=5.0)
    assert differences(written(bootstrap, f"{topic}-priors"), wanted) == []


def test_idle_needs_windows_by_time() -> None:
    with pytest.raises(InputError, match=r"idle: 5 s, but windows by count"):
        KafkaMonitor(PROFILE, settings("127.0.0.1:1", "t", idle=5.0), WINDOW)
