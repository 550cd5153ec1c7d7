"""Kafka clients that the connector can use."""

from stream_leip_connectors.kafka.client import Client
from stream_leip_connectors.kafka.clients.confluent import Confluent
from stream_leip_connectors.kafka.clients.kafka_python import KafkaPython
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.security import ClientName

CLIENTS: dict[ClientName, type[Confluent] | type[KafkaPython]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
}


def make_client(name: ClientName, connection: Connection) -> Client:
    """A client by its name; its package must be installed."""
    return CLIENTS[name](connection)
