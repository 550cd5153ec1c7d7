"""Clients of kafka-python that cannot be made."""

import threading

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError
from stream_leip_connectors.kafka.making import make


@pytest.mark.parametrize("kind", [KafkaAdminClient, KafkaConsumer, KafkaProducer])
def test_a_client_that_finds_nobody_leaves_no_thread_behind(kind: type) -> None:
    before = threading.active_count()
    with pytest.raises(KafkaError):
        make(kind, bootstrap_servers="127.0.0.1:9", bootstrap_timeout_ms=300)
    assert threading.active_count() == before
