"""The connector's topics: checked at the start, made if asked to, emptied by a reset."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from stream_leip_connectors.kafka.application import Topics
from stream_leip_connectors.kafka.client import Admin, Client, ClientFailed
from stream_leip_connectors.kafka.errors import BrokerError, TopicsError

# Small segments: what was taken back is compacted away before it makes a restore slow.
_CHANGELOG = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.bytes": str(64 << 20),
}
_UPDATES = {"cleanup.policy": "compact"}
# Seconds until a topic that was deleted is gone.
_PATIENCE = 10.0


def check_topics(client: Client, topics: Topics, *, create: bool) -> int:
    """How many partitions the input has; TopicsError if topics are not what they should be."""
    with administering(client) as admin:
        sizes = _partitions(admin, topics)
        if topics.input not in sizes:
            raise TopicsError(
                f"input: topic {topics.input!r} does not exist on {client.bootstrap}; create "
                "it, with as many partitions as it will ever have, or name another with --input"
            )
        n = sizes[topics.input]
        wanted = _wanted(topics, n)
        missing = {name: each for name, each in wanted.items() if name not in sizes}
        if missing and not create:
            raise TopicsError(
                f"topics: {', '.join(map(repr, missing))} do not exist on {client.bootstrap}; "
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
        policy = admin.setting(topics.changelog, "cleanup.policy")
        if "compact" not in policy or "delete" in policy:
            raise TopicsError(
                f"changelog: topic {topics.changelog!r} has cleanup.policy={policy}, which would "
                "lose state; set cleanup.policy=compact"
            )
    return n


def check_panes(client: Client, name: str, *, create: bool) -> None:
    """TopicsError unless the panes topic is there, and has the one partition it needs."""
    with administering(client) as admin:
        n = admin.partitions([name]).get(name)
        if n is None and create:
            _create(admin, {name: _Wanted(1, {"cleanup.policy": "delete"})})
        elif n is None:
            raise TopicsError(
                f"topics: {name!r} does not exist on {client.bootstrap}; start once with "
                "--create-topics, or create it with one partition"
            )
        elif n != 1:
            raise TopicsError(
                f"panes: topic {name!r} has {n} partitions; it needs exactly one. Delete it and "
                "begin anew with 'stream-leip kafka reset'"
            )


def forget(client: Client, topics: Topics, group: str) -> bool:
    """Delete the state, and the offsets of a group that nobody is a member of.

    Whether there was a topic with its state.
    """
    with administering(client) as admin:
        sizes = _partitions(admin, topics)
        try:
            alone = admin.delete_group(group)
        except ClientFailed as error:
            raise TopicsError(f"group: {group!r} cannot be deleted: {error}") from error
        if not alone:
            raise TopicsError(
                f"group: {group!r} still has members; stop them, and wait until the session "
                "timeout of those with an --instance has passed"
            )
        there = topics.changelog in sizes
        if there:
            delete_topic(admin, topics.changelog)
        return there


def delete_topic(admin: Admin, name: str) -> None:
    """Delete a topic, if it is there, and wait until it is gone: a start may follow at once."""
    if name in admin.partitions([name]):
        admin.delete(name)
    until = time.monotonic() + _PATIENCE
    while name in admin.partitions([name]) and time.monotonic() < until:
        time.sleep(0.1)


class _Wanted(NamedTuple):
    partitions: int
    settings: dict[str, str]


def _wanted(topics: Topics, partitions: int) -> dict[str, _Wanted]:
    found = {
        topics.updates: _Wanted(partitions, _UPDATES),
        topics.changelog: _Wanted(partitions, _CHANGELOG),
    }
    if topics.letters is not None:
        found[topics.letters] = _Wanted(1, {})
    return found


def _create(admin: Admin, missing: dict[str, _Wanted]) -> None:
    for name, (partitions, settings) in missing.items():
        try:
            admin.create(name, partitions, settings)
        except ClientFailed as error:
            raise TopicsError(f"topic {name!r} cannot be created: {error}") from error


def _partitions(admin: Admin, topics: Topics) -> dict[str, int]:
    """Of the topics that exist."""
    named = [topics.input, topics.updates, topics.changelog]
    if topics.letters is not None:
        named.append(topics.letters)
    return admin.partitions(named)


@contextmanager
def administering(client: Client) -> Iterator[Admin]:
    """An admin, whose failures become BrokerError."""
    try:
        admin = client.admin()
    except ClientFailed as error:
        raise BrokerError(f"bootstrap: {error}; is the broker there?") from error
    try:
        yield admin
    except ClientFailed as error:
        raise BrokerError(f"{client.bootstrap}: {error}") from error
    finally:
        admin.close()
