"""What a group would miss on its brokers, all of it at once, each with the remedy."""

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal, NamedTuple

from stream_leip_connectors import extras
from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka.client import Client, ClientFailed
from stream_leip_connectors.kafka.clients import make_client
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.making import make
from stream_leip_connectors.kafka.whole import merge_group, topics_of
from stream_leip_connectors.security import ClientName

_FORBIDDEN = 29  # Kafka's code of a topic that this user may not know of
# Seconds that a broker may take to make its own topics, at its very first group or transaction.
_PATIENCE = 15.0


class Finding(NamedTuple):
    """What was looked at, whether it is fine, and what was seen; if it is not, the remedy."""

    what: str
    fine: bool
    says: str

    def __str__(self) -> str:
        return f"{'ok' if self.fine else 'wrong':5} {self.what}: {self.says}"


def check(settings: KafkaSettings) -> Iterator[Finding]:
    """Look at all that a run with these settings needs; nothing is made or written.

    Examples
    --------
    >>> from stream_leip_connectors.config import KafkaSettings
    >>> from stream_leip_connectors.kafka.checking import check
    >>> for finding in check(KafkaSettings(bootstrap="127.0.0.1:1")):
    ...     print(finding)
    ok    codecs: gzip, lz4, snappy, zstd
    wrong broker: 127.0.0.1:1 cannot be reached: nobody listens there; is the broker up?
    """
    yield _codecs(settings.client)
    client = make_client(
        settings.client,
        Connection(settings.bootstrap, settings.client_options(settings.client)),
    )
    try:
        client.check_reach()
    except BrokerError as error:
        yield Finding("broker", False, str(error))
        return
    # Rights are told by kafka-python alone.
    connection = Connection(settings.bootstrap, settings.client_options())
    with closing(
        make(extras.kafka("kafka.admin").KafkaAdminClient, **connection.arguments())
    ) as admin:
        cluster = admin.describe_cluster()
        brokers = len(cluster["brokers"])
        yield Finding("broker", True, f"{connection.bootstrap} answers; {brokers} in the cluster")
        may_create = "CREATE" in (cluster.get("authorized_operations") or ())
        yield from _Topics(admin, settings, may_create).findings()
        yield _group(admin, settings.group)
        if settings.scope == "topic":
            yield _group(admin, merge_group(settings))
    if settings.delivery == "exactly-once":
        yield _transactions(client, settings)
    else:
        yield Finding("transactions", True, "not asked for: delivery is at-least-once")


def _codecs(client: ClientName) -> Finding:
    """Whoever writes the input may compress it with any of these."""
    if client == "confluent":
        return Finding("codecs", True, "those of librdkafka, which brings its own")
    codec = extras.kafka("kafka.codec")
    there = {name: getattr(codec, f"has_{name}")() for name in ("gzip", "lz4", "snappy", "zstd")}
    missing = [name for name, found in there.items() if not found]
    if missing:
        return Finding(
            "codecs",
            False,
            f"{', '.join(missing)} cannot be read; pip install 'stream-leip[kafka]'",
        )
    return Finding("codecs", True, ", ".join(there))


class _Wanted(NamedTuple):
    """A topic that is needed: its role, what this user must be able to do, and what it must be."""

    role: str
    name: str
    rights: set[str]
    compact: bool = False
    partitions: Literal["any", "one", "as many as the input"] = "any"


_STATE = {"READ", "WRITE", "DESCRIBE_CONFIGS"}


def _wanted(settings: KafkaSettings) -> Iterator[_Wanted]:
    yield _Wanted("input", settings.input, {"READ"})
    yield _Wanted("updates", settings.updates, {"WRITE"})
    yield _Wanted("changelog", settings.changelog_topic, _STATE, True, "as many as the input")
    if settings.letters_topic is not None:
        yield _Wanted("dead letters", settings.letters_topic, {"WRITE"})
    if settings.scope == "topic":
        between = topics_of(settings)[1]
        yield _Wanted("panes", between.input, {"READ", "WRITE"}, False, "one")
        yield _Wanted("changelog", between.changelog, _STATE, True, "one")


class _Topics:
    """The topics, and what this user may do with them."""

    def __init__(self, admin: Any, settings: KafkaSettings, may_create: bool) -> None:
        self._admin = admin
        self._settings = settings
        self._may_create = may_create
        self._partitions: int | None = None  # of the input

    def findings(self) -> Iterator[Finding]:
        wanted = list(_wanted(self._settings))
        described = {
            each["name"]: each for each in self._admin.describe_topics([w.name for w in wanted])
        }
        for each in wanted:
            yield self._of(each, described[each.name])

    def _of(self, wanted: _Wanted, found: dict[str, Any]) -> Finding:
        what, rights = f"{wanted.role} {wanted.name!r}", wanted.rights
        if found["error_code"] == _FORBIDDEN:
            return Finding(
                what, False, f"this user may not know of it; allow {_listed(rights)} on it"
            )
        if found["error_code"]:
            return self._missing(wanted, what)
        partitions = len(found["partitions"])
        if wanted.role == "input":
            self._partitions = partitions
        held = found["authorized_operations"]
        lacking = set() if held is None else rights - set(held)
        if lacking:
            return Finding(what, False, f"this user may not {_listed(lacking)} it; allow that")
        wrong = self._wrong(wanted, partitions)
        plural = "" if partitions == 1 else "s"
        return Finding(what, wrong is None, wrong or f"{partitions} partition{plural}")

    def _missing(self, wanted: _Wanted, what: str) -> Finding:
        if wanted.role == "input":
            return Finding(
                what,
                False,
                "does not exist; create it, with as many partitions as it will ever have",
            )
        if self._settings.create_topics and self._may_create:
            return Finding(what, True, "does not exist yet; --create-topics makes it")
        if self._settings.create_topics:
            return Finding(
                what, False, "does not exist, and this user may not CREATE topics; create it"
            )
        needs = ["cleanup.policy=compact"] if wanted.compact else []
        needs += {"one": ["one partition"], "any": []}.get(
            wanted.partitions, ["as many partitions as the input"]
        )
        how = f" with {' and '.join(needs)}" if needs else ""
        return Finding(
            what, False, f"does not exist; start once with --create-topics, or create it{how}"
        )

    def _wrong(self, wanted: _Wanted, partitions: int) -> str | None:
        """What is not as it must be of a topic that is there, and the remedy."""
        if wanted.partitions == "one" and partitions != 1:
            return (
                f"has {partitions} partitions, and needs exactly one; delete it, and begin anew "
                "with 'stream-leip kafka reset'"
            )
        as_input = wanted.partitions == "as many as the input" and self._partitions is not None
        if as_input and partitions != self._partitions:
            return (
                f"has {partitions} partitions, but the input has {self._partitions}; begin anew "
                "with 'stream-leip kafka reset', or name another with --changelog"
            )
        policy = self._policy(wanted.name) if wanted.compact else "compact"
        if "compact" not in policy or "delete" in policy:
            return f"cleanup.policy={policy} would lose state; set cleanup.policy=compact"
        return None

    def _policy(self, topic: str) -> str:
        resources = extras.kafka("kafka.admin")
        asked = resources.ConfigResource("topic", topic, {"cleanup.policy": None})
        found = self._admin.describe_configs([asked], config_filter="all")["topic"][topic]
        return str(found["cleanup.policy"]["value"])


def _group(admin: Any, group: str) -> Finding:
    """Whether this user may be a member."""
    errors = extras.kafka().errors
    what = f"group {group!r}"
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            found = admin.describe_groups([group])[group]
        except errors.CoordinatorNotAvailableError as error:
            if time.monotonic() > until:
                return Finding(what, False, f"no broker coordinates it ({error}); is one missing?")
            time.sleep(0.5)
            continue
        except errors.AuthorizationError:
            return Finding(what, False, "this user may not READ it; allow that")
        break
    held = found.get("authorized_operations")
    if held and "READ" not in held:
        return Finding(what, False, "this user may not READ it; allow that")
    members = len(found.get("members") or ())
    return Finding(what, True, f"{members} members" if members else "no members now")


def _transactions(client: Client, settings: KafkaSettings) -> Finding:
    """Whether the brokers take transactions of this group; none is begun."""
    # Not the name of an instance: who comes later by the same one ends the one before.
    name = f"{settings.group}-check"
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            client.producer(name, settings.transaction_timeout, "exactly-once").close(1.0)
        except ClientFailed as error:
            says = str(error)
            # The clients spell Kafka's name of it differently.
            if "invalidtransactiontimeout" in says.replace("_", "").lower():
                why = "--transaction-timeout is above the broker's transaction.max.timeout.ms"
                return Finding("transactions", False, f"{why}; shorten it")
            if error.meaning == "refused":
                why = f"this user may not write as {name!r} ({says})"
                return Finding(
                    "transactions",
                    False,
                    f"{why}; allow WRITE on transactional ids that begin with '{settings.group}-'",
                )
            if time.monotonic() > until:
                why = f"the brokers do not begin any ({says})"
                return Finding(
                    "transactions",
                    False,
                    f"{why}; do they have transaction.state.log.replication.factor nodes?",
                )
            time.sleep(0.5)
        else:
            return Finding("transactions", True, "the brokers take them")


def _listed(rights: set[str]) -> str:
    return " and ".join(sorted(rights))
