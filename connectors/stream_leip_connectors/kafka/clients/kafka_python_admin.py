"""kafka-python: topics and groups."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import ClientFailed
from stream_leip_connectors.kafka.clients.kafka_python_errors import translated
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.making import make


class PythonAdmin:
    """Makes, looks at and deletes topics and groups.

    Parameters
    ----------
    connection
        Where the brokers are.
    """

    def __init__(self, connection: Connection) -> None:
        self._kafka = extras.kafka()
        self._module = extras.kafka("kafka.admin")
        with translated(self._kafka):
            self._admin = make(self._module.KafkaAdminClient, **connection.arguments())

    def partitions(self, topics: Sequence[str]) -> dict[str, int]:
        """How many each topic has, of those that exist."""
        with translated(self._kafka):
            found = self._admin.describe_topics(list(topics))
        return {each["name"]: len(each["partitions"]) for each in found if not each["error_code"]}

    def setting(self, topic: str, name: str) -> str:
        """One of a topic's settings."""
        asked = self._module.ConfigResource("topic", topic, {name: None})
        with translated(self._kafka):
            found = self._admin.describe_configs([asked], config_filter="all")
        held = found["topic"][topic].get(name)
        if held is None:
            raise ClientFailed(
                "refused",
                f"this user may not DESCRIBE_CONFIGS of topic {topic!r}; allow that ('stream-leip "
                "kafka check' lists all that is missing)",
            )
        return str(held["value"])

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        """Make a topic, unless it is there already."""
        wanted = {topic: {"num_partitions": partitions, "configs": dict(settings)}}
        # Another process of the group may be faster.
        faster = self._kafka.errors.TopicAlreadyExistsError
        with translated(self._kafka), suppress(faster):
            self._admin.create_topics(wanted, wait_for_metadata=True)

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        with translated(self._kafka):
            self._admin.delete_topics([topic])

    def delete_group(self, group: str) -> bool:
        """Delete a group, if there is one; whether it had no members left."""
        with translated(self._kafka):
            if group not in {each["group_id"] for each in self._admin.list_groups()}:
                return True
            answer = str(self._admin.delete_groups([group])[group])
        if answer != "OK" and "NonEmptyGroup" not in answer:
            raise ClientFailed("refused", answer)
        return answer == "OK"

    def close(self) -> None:
        """Let go of the connections."""
        self._admin.close()
