"""confluent-kafka: what every client of it is made with."""

from typing import Any

from stream_leip_connectors.kafka.connection import Connection

_RETRIES = {
    # With the default of 100 ms most of a transaction is waiting.
    "retry.backoff.ms": 10,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
}


def arguments(connection: Connection) -> dict[str, Any]:
    """What every client is made with; ClientFailed if there is nobody to connect to."""
    connection.look()
    return {"bootstrap.servers": connection.bootstrap, **_RETRIES, **connection.options}
