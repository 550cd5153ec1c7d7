"""Reaching a broker for the first time by confluent-kafka, whose log says why that failed."""

import logging
from time import monotonic

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.reaching import cannot_reach, explain


def check_reach(connection: Connection, *, timeout: float = 10.0) -> None:
    """Connect once; BrokerError, with the reason and the remedy, if that fails."""
    confluent = extras.confluent()
    module = extras.confluent("confluent_kafka.admin")
    said: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    # Of its own, so that nobody else hears it.
    log = logging.Logger("overheard", logging.WARNING)  # noqa: LOG001
    log.addHandler(Handler())
    where = connection.bootstrap
    settings = {"bootstrap.servers": where, **connection.options}
    settings["error_cb"] = lambda error: said.append(str(error))
    try:
        admin = module.AdminClient(settings, logger=log)
    except confluent.KafkaException as error:  # a PEM file that is none, say
        raise BrokerError(f"{where} cannot be reached: {error.args[0].str()}") from None
    until = monotonic() + timeout
    while True:
        try:
            admin.list_topics(timeout=0.5)
            return
        except confluent.KafkaException as error:
            admin.poll(0)  # so that the log is written
            why, final = explain(said, error.args[0].str(), sasl="sasl.username" in settings)
            if final or monotonic() > until:
                raise cannot_reach(where, why) from None
