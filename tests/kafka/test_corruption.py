"""Batches spoilt on the broker's disk: found, and read past, with new consumers."""

from typing import Any

import pytest
from stream_leip_connectors.kafka.client import Client, ClientFailed
from stream_leip_connectors.kafka.clients import make_client
from stream_leip_connectors.kafka.clients.kafka_python_errors import is_corrupt
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.corruption import CorruptBatch, find_corrupt
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.local import LocalBroker
from stream_leip_connectors.security import ClientName

from tests.kafka.corrupting import batches, flip_a_byte, name_codec, segment

pytestmark = pytest.mark.needs_kafka

BATCHES, EACH = 5, 3
# topic: what is done to its batches.
SPOILT: dict[str, Any] = {
    "crc": {1: flip_a_byte},
    "unknown": {2: lambda data, batch: name_codec(data, batch, 6)},
    "not-snappy": {0: lambda data, batch: name_codec(data, batch, 2)},
    "not-lz4": {0: lambda data, batch: name_codec(data, batch, 3)},
    "two-in-a-row": {1: flip_a_byte, 2: flip_a_byte},
    "the-last": {4: flip_a_byte},
}


def spoilt_topics(broker: LocalBroker) -> None:
    from kafka import KafkaAdminClient, KafkaProducer
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(topic, 1, 1) for topic in SPOILT])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=1000)
    for _ in range(BATCHES):
        for topic in SPOILT:
            for i in range(EACH):
                producer.send(topic, b"%d" % i)
        producer.flush()
    producer.close()
    broker.stop()  # a broker that was killed would cut off what it finds spoilt
    for topic, plan in SPOILT.items():
        file = segment(broker.folder, topic)
        data = bytearray(file.read_bytes())
        there = batches(bytes(data))
        assert [(each.first, each.last) for each in there] == [
            (EACH * k, EACH * k + EACH - 1) for k in range(BATCHES)
        ]
        for number, spoil in plan.items():
            spoil(data, there[number])
        file.write_bytes(data)
    broker.start()


def read_past(client: Client, topic: str) -> tuple[list[int], list[CorruptBatch]]:
    """All offsets that can be read, and what was passed over; as the connector does it."""
    seen: list[int] = []
    passed: list[CorruptBatch] = []
    position = 0
    while position < BATCHES * EACH:
        reader = client.reader()
        reader.start(topic, {0: position})
        failure = None
        try:
            while position < BATCHES * EACH:
                for records in reader.poll(1.0, 2).values():
                    seen += [record.offset for record in records]
                    position = records[-1].offset + 1
        except ClientFailed as error:
            failure = error
        reader.close()
        if failure is not None:
            assert failure.meaning == "corrupt"
            found = find_corrupt(lambda: client.reader(committed=False), topic, {0: position})
            assert found
            passed += found
            position = found[0].last + 1
    return seen, passed


@pytest.mark.parametrize("name", ["kafka-python", "confluent"])
def test_every_other_record_is_read(broker: LocalBroker, name: ClientName) -> None:
    spoilt_topics(broker)
    client = make_client(name, Connection(broker.bootstrap))
    for topic, plan in SPOILT.items():
        seen, passed = read_past(client, topic)
        lost = [EACH * number + i for number in plan for i in range(EACH)]
        assert seen == [offset for offset in range(BATCHES * EACH) if offset not in lost], topic
        assert [offset for each in passed for offset in range(each.first, each.last + 1)] == lost
        assert all(each.reason and each.topic == topic for each in passed)


def test_a_missing_codec_is_no_corruption() -> None:
    from kafka.errors import UnsupportedCodecError

    missing = UnsupportedCodecError("Libraries for lz4 compression codec not found")
    with pytest.raises(
        BrokerError, match=r"install the codecs: pip install 'stream-leip\[kafka\]'"
    ):
        is_corrupt(missing)


def test_a_broker_that_is_away_is_no_corruption() -> None:
    from kafka.errors import KafkaConnectionError, KafkaTimeoutError

    assert not is_corrupt(KafkaConnectionError())
    assert not is_corrupt(KafkaTimeoutError())
    assert not is_corrupt(ConnectionResetError(104, "Connection reset by peer"))
