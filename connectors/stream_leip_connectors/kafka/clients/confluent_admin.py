"""confluent-kafka: topics and groups."""

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import ClientFailed
from stream_leip_connectors.kafka.clients.confluent_errors import failed, translated
from stream_leip_connectors.kafka.clients.confluent_settings import arguments
from stream_leip_connectors.kafka.connection import PATIENCE, Connection

_LOG = logging.getLogger("confluent_kafka")
# Topics are made and deleted in seconds, on a busy cluster.
_LONG = 30.0


class ConfluentAdmin:
    """Makes, looks at and deletes topics and groups.

    Parameters
    ----------
    connection
        Where the brokers are.
    """

    def __init__(self, connection: Connection) -> None:
        self._confluent = extras.confluent()
        self._module = extras.confluent("confluent_kafka.admin")
        with translated():
            self._admin = self._module.AdminClient(arguments(connection), logger=_LOG)

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """How many each topic has, of those that exist."""
        with translated():
            found = self._admin.list_topics(timeout=PATIENCE).topics
        there = {name: found[name] for name in topics if name in found}
        return {name: len(each.partitions) for name, each in there.items() if each.error is None}

    def setting(self, topic: str, name: str) -> str:
        """One of a topic's settings."""
        asked = self._module.ConfigResource(self._module.ConfigResource.Type.TOPIC, topic)
        with translated():
            found = self._admin.describe_configs([asked], request_timeout=PATIENCE)
            return str(found[asked].result()[name].value)

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, unless it is there already."""
        wanted = self._module.NewTopic(topic, partitions, config=dict(settings))
        # Another process of the group may be faster.
        self._do(self._admin.create_topics([wanted], request_timeout=_LONG), "TOPIC_ALREADY_EXISTS")
        until = time.monotonic() + _LONG
        while not self.partitions([topic]):
            if time.monotonic() > until:
                raise ClientFailed("retry", f"{topic!r} was made, but is not there yet")
            time.sleep(0.05)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._do(self._admin.delete_topics([topic], request_timeout=_LONG))

    def delete_group(self, group: str) -> bool:
        """Delete a group, if there is one; whether it had no members left."""
        asked = self._admin.delete_consumer_groups([group], request_timeout=_LONG)
        return self._do(asked, "GROUP_ID_NOT_FOUND", "NON_EMPTY_GROUP") != "NON_EMPTY_GROUP"

    def _do(self, asked: dict[str, Any], *fine: str) -> str | None:
        """Wait for one answer; the name of its error, if that is fine."""
        (answer,) = asked.values()
        try:
            answer.result()
        except self._confluent.KafkaException as error:
            name = str(error.args[0].name())
            if name not in fine:
                raise failed(error.args[0]) from error
            return name
        return None

    def close(self) -> None:
        """Let go of the connections."""
        del self._admin
