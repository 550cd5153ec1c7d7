"""What is missing on a broker is said, all at once and with the remedy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka import KafkaMonitor
from stream_leip_connectors.kafka.checking import Finding, check
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.listeners import Listeners
from stream_leip_connectors.kafka.local import LocalBroker

from tests.commands import run
from tests.kafka.conftest import NewTopic
from tests.kafka.streams import settings
from tests.streams import PROFILE

pytestmark = pytest.mark.needs_kafka

PASSWORD = "wonderland"


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalBroker]:
    """A broker on which alice has the rights that a test gives her, and no others."""
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with LocalBroker(listeners=Listeners({"alice": PASSWORD}), settings=rules) as broker:
        yield broker


def as_alice(broker: LocalBroker, **more: Any) -> KafkaSettings:
    return KafkaSettings(
        bootstrap=broker.address("sasl"),
        security_protocol="SASL_PLAINTEXT",
        username="alice",
        password=SecretStr(PASSWORD),
        **more,
    )


def allow(broker: LocalBroker, kind: str, name: str, *operations: str) -> None:
    from kafka.admin import (
        ACL,
        ACLOperation,
        ACLPermissionType,
        KafkaAdminClient,
        ResourcePattern,
        ResourceType,
    )
    from kafka.admin import ACLResourcePatternType as Pattern

    pattern = ResourcePattern(ResourceType[kind], name, Pattern.PREFIXED)
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        for each in operations:
            who = ("User:alice", "*", ACLOperation[each], ACLPermissionType.ALLOW, pattern)
            admin.create_acls([ACL(*who)])
    finally:
        admin.close()


def wrong(given: KafkaSettings) -> dict[str, str]:
    return {each.what: each.says for each in check(given) if not each.fine}


def test_nothing_is_wrong_once_it_runs(bootstrap: str, new_topic: NewTopic, tmp_path: Path) -> None:
    topic = new_topic(2)
    given = settings(bootstrap, topic)
    assert wrong(given) == {}  # --create-topics makes what is missing
    given = settings(bootstrap, topic, create_topics=False)
    found = wrong(given)
    assert sorted(found) == sorted(
        [
            f"changelog '{topic}-group-changelog'",
            f"dead letters '{topic}-dead-letters'",
            f"updates '{topic}-priors'",
        ]
    )
    assert all("--create-topics" in says for says in found.values())
    arguments = ["--bootstrap", bootstrap, "--input", topic, "--updates", f"{topic}-priors"]
    done = run("kafka", "check", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert f"ok    input '{topic}': 2 partitions\n" in done.stdout
    assert "3 of these to mend" in done.stderr
    done = run("kafka", "check", *arguments, "--create-topics", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_topics_that_are_not_right(bootstrap: str, new_topic: NewTopic) -> None:
    topic, few, lossy = new_topic(2), new_topic(1, {"cleanup.policy": "compact"}), new_topic(2)
    assert "has 1 partitions, but the input has 2" in next(
        iter(wrong(settings(bootstrap, topic, changelog=few)).values())
    )
    assert "set cleanup.policy=compact" in next(
        iter(wrong(settings(bootstrap, topic, changelog=lossy)).values())
    )
    assert (
        "create it, with as many partitions"
        in wrong(settings(bootstrap, "nowhere"))["input 'nowhere'"]
    )


def test_what_a_whole_topic_needs_too(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    given = settings(bootstrap, topic, scope="topic", create_topics=False)
    found = wrong(given)
    assert len(found) == 5
    assert "with one partition" in found[f"panes '{topic}-group-panes'"]
    merge = f"changelog '{topic}-group-merge-changelog'"
    assert "with cleanup.policy=compact and one partition" in found[merge]
    assert wrong(settings(bootstrap, topic, scope="topic")) == {}
    groups = [each.what for each in check(given) if each.what.startswith("group")]
    assert groups == [f"group '{topic}-group'", f"group '{topic}-group-merge'"]


def test_panes_in_several_partitions(bootstrap: str, new_topic: NewTopic, admin: Any) -> None:
    from kafka.admin import NewTopic as Topic

    topic = new_topic(2)
    admin.create_topics([Topic(f"{topic}-group-panes", 3, 1)])
    found = wrong(settings(bootstrap, topic, scope="topic"))
    assert "has 3 partitions, and needs exactly one" in found[f"panes '{topic}-group-panes'"]


def test_a_transaction_timeout_that_the_broker_refuses(bootstrap: str, new_topic: NewTopic) -> None:
    found = wrong(settings(bootstrap, new_topic(), transaction_timeout=100_000.0))
    assert "transaction.max.timeout.ms; shorten it" in found["transactions"]


def test_transactions_are_not_asked_for_at_least_once(
    bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    given = settings(bootstrap, topic, transaction_timeout=100_000.0, delivery="at-least-once")
    assert wrong(given) == {}
    flags = ["--bootstrap", bootstrap, "--input", topic, "--delivery", "at-least-once"]
    done = run("kafka", "check", *flags, "--create-topics", cwd=tmp_path)
    assert "ok    transactions: not asked for: delivery is at-least-once\n" in done.stdout


def test_the_client_of_the_run_is_tried(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    given = settings(bootstrap, topic, client="confluent")
    assert wrong(given) == {}
    assert Finding("codecs", True, "those of librdkafka, which brings its own") in check(given)
    long = settings(bootstrap, topic, client="confluent", transaction_timeout=100_000.0)
    assert "transaction.max.timeout.ms; shorten it" in wrong(long)["transactions"]
    codecs, broker = check(settings("127.0.0.1:1", topic, client="confluent"))
    assert codecs.fine
    assert "nobody listens there" in broker.says


def test_a_broker_that_cannot_be_reached(tmp_path: Path) -> None:
    done = run("kafka", "check", "--bootstrap", "127.0.0.1:1", cwd=tmp_path)
    assert done.returncode == 1
    assert "wrong broker: 127.0.0.1:1 cannot be reached: nobody listens there" in done.stdout


def test_rights_that_are_missing(guarded: LocalBroker) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=guarded.bootstrap)
    compact = {"cleanup.policy": "compact"}
    names = ["predictions", "predictions-dead-letters", "priors"]
    topics = [NewTopic(name, 2, 1) for name in names]
    admin.create_topics([*topics, NewTopic("mine-changelog", 2, 1, topic_configs=compact)])
    admin.close()
    alice = as_alice(guarded, group="mine")
    found = wrong(alice)
    assert len(found) == 6
    assert "may not know of it; allow READ on it" in found["input 'predictions'"]
    assert "may not READ it" in found["group 'mine'"]
    assert "ids that begin with 'mine-'" in found["transactions"]
    allow(guarded, "TOPIC", "predictions", "READ")
    allow(guarded, "TOPIC", "priors", "DESCRIBE")
    allow(guarded, "TOPIC", "mine-changelog", "READ", "WRITE")
    allow(guarded, "GROUP", "mine", "READ")
    allow(guarded, "TRANSACTIONAL_ID", "mine-", "WRITE")
    found = wrong(alice)
    assert found == {
        "updates 'priors'": "this user may not WRITE it; allow that",
        "changelog 'mine-changelog'": "this user may not DESCRIBE_CONFIGS it; allow that",
        "dead letters 'predictions-dead-letters'": "this user may not WRITE it; allow that",
    }
    with pytest.raises(BrokerError, match="may not DESCRIBE_CONFIGS of topic 'mine-changelog'"):
        KafkaMonitor(PROFILE, alice).run()
    for name in ("predictions-dead-letters", "priors"):
        allow(guarded, "TOPIC", name, "WRITE")
    allow(guarded, "TOPIC", "mine-changelog", "DESCRIBE_CONFIGS")
    assert wrong(alice) == {}
    assert "may not CREATE topics" in str(
        wrong(as_alice(guarded, group="mine", create_topics=True, changelog="mine-changelog-2"))
    )
