"""The connector's topics: checked at the start, made if asked to, emptied by a reset."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.connection import ClientFailed, Connection
from stream_leip_connectors.kafka.errors import BrokerError, TopicsError
from stream_leip_connectors.kafka.worker import Topics

# Small segments: what was taken back is compacted away before it makes a restore slow.
_CHANGELOG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(64 << 20),
}
_UPDATES = {"cleanup.policy": "compact"}


def check_topics(connection: Connection, topics: Topics, *, create: bool) -> int:
    """How many partitions the input has; TopicsError if topics are not what they should be."""
    with _admin(connection) as admin:
        sizes = _partitions(admin, topics)
        if topics.input not in sizes:
            raise TopicsError(
                f"input: topic {topics.input!r} does not exist on {connection.bootstrap}; create "
                "it, with as many partitions as it will ever have, or name another with --input"
            )
        n = sizes[topics.input]
        wanted = _wanted(topics, n)
        missing = {name: each for name, each in wanted.items() if name not in sizes}
        if missing and not create:
            raise TopicsError(
                f"topics: {', '.join(map(repr, missing))} do not exist on {connection.bootstrap}; "
                "start once with --create-topics, or create them (docs/kafka.md says how)"
            )
        if missing:
            _create(admin, missing)
        found = sizes.get(topics.changelog, n)
        if found != n:
            raise TopicsError(
                f"changelog: topic {topics.changelog!r} has {found} partitions, but "
                f"{topics.input!r} has {n}; it needs as many. If the input was given more "
                "partitions, its keys moved between them: begin anew with 'stream-leip kafka "
                "reset'"
            )
        policy = _policy(admin, topics.changelog)
        if "compact" not in policy or "delete" in policy:
            raise TopicsError(
                f"changelog: topic {topics.changelog!r} has cleanup.policy={policy}, which would "
                "lose state; set cleanup.policy=compact"
            )
    return n


def forget(connection: Connection, topics: Topics, group: str) -> None:
    """Delete the state, and the offsets of a group that nobody is a member of."""
    with _admin(connection) as admin:
        sizes = _partitions(admin, topics)
        if group in {each["group_id"] for each in admin.list_groups()}:
            answer = str(admin.delete_groups([group])[group])
            if "NonEmptyGroup" in answer:
                raise TopicsError(
                    f"group: {group!r} still has members; stop them, and wait until the session "
                    "timeout of those with an --instance has passed"
                )
            if answer != "OK":
                raise TopicsError(f"group: {group!r} cannot be deleted: {answer}")
        if topics.changelog in sizes:
            admin.delete_topics([topics.changelog])


def _wanted(topics: Topics, partitions: int) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {
        topics.updates: {"num_partitions": partitions, "configs": _UPDATES},
        topics.changelog: {"num_partitions": partitions, "configs": _CHANGELOG},
    }
    if topics.letters is not None:
        found[topics.letters] = {"num_partitions": 1, "configs": {}}
    return found


def _create(admin: Any, missing: dict[str, dict[str, Any]]) -> None:
    kafka = extras.kafka()
    for name, each in missing.items():
        try:
            admin.create_topics({name: each}, wait_for_metadata=True)
        except kafka.errors.TopicAlreadyExistsError:
            pass  # another process of the group was faster
        except kafka.errors.KafkaError as error:
            raise TopicsError(f"topic {name!r} cannot be created: {error}") from error


def _partitions(admin: Any, topics: Topics) -> dict[str, int]:
    """Of the topics that exist."""
    named = [topics.input, topics.updates, topics.changelog]
    if topics.letters is not None:
        named.append(topics.letters)
    twice = {name for name in named if named.count(name) > 1}
    if twice:
        raise TopicsError(f"topics: {twice.pop()!r} is named twice; each needs one of its own")
    described = admin.describe_topics(named)
    return {each["name"]: len(each["partitions"]) for each in described if not each["error_code"]}


def _policy(admin: Any, topic: str) -> str:
    resources = extras.kafka("kafka.admin")
    asked = resources.ConfigResource("topic", topic, {"cleanup.policy": None})
    found = admin.describe_configs([asked], config_filter="all")
    return str(found["topic"][topic]["cleanup.policy"]["value"])


@contextmanager
def _admin(connection: Connection) -> Iterator[Any]:
    kafka = extras.kafka()
    try:
        admin = extras.kafka("kafka.admin").KafkaAdminClient(**connection.arguments())
    except (ClientFailed, kafka.errors.KafkaError) as error:
        raise BrokerError(f"bootstrap: {error}; is the broker there?") from error
    try:
        yield admin
    except kafka.errors.KafkaError as error:
        raise BrokerError(f"{connection.bootstrap}: {error}") from error
    finally:
        admin.close()
