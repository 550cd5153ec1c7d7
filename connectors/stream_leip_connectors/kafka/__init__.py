"""Apache Kafka: predictions in, prior updates out."""

from stream_leip_connectors.config import KafkaSettings
from stream_leip_connectors.kafka.local import LocalBroker
from stream_leip_connectors.kafka.monitor import KafkaMonitor

__all__ = ["KafkaMonitor", "KafkaSettings", "LocalBroker"]
