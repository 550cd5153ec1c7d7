"""Writing to a topic and reading it whole."""

from collections.abc import Iterable
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def write(bootstrap: str, topic: str, messages: Iterable[dict[str, Any]], **settings: Any) -> None:
    """Send messages, each the arguments of a producer's send()."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)
    try:
        sent = [producer.send(topic, **message) for message in messages]
        producer.flush()
        for future in sent:
            future.get(timeout=30)
    finally:
        producer.close()


def read(bootstrap: str, topic: str, **settings: Any) -> list[Any]:
    """Every committed record of a topic, partition by partition."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_auto_commit=False,
        max_poll_records=10_000,
        **settings,
    )
    try:
        partitions = [
            TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)
        ]
        consumer.assign(partitions)
        # A transaction may be committed and its markers still to come: read on to these.
        with KafkaConsumer(bootstrap_servers=bootstrap, **settings) as uncommitted:
            ends = uncommitted.end_offsets(partitions)
        found: dict[Any, list[Any]] = {partition: [] for partition in partitions}
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for partition, records in consumer.poll(1000).items():
                found[partition] += records
        return [record for partition in partitions for record in found[partition]]
    finally:
        consumer.close()
