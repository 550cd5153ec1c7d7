"""What a session needs."""

import pyspark
from pyspark.sql import DataFrame

from stream_leip import InputError

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# For streams of any source.
SETTINGS = {_PROVIDER: _ROCKSDB}
# Spark's Kafka source and sink: a jar that it fetches itself, of its own version.
KAFKA_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"


def check_session(df: DataFrame) -> None:
    """InputError unless the session keeps state as a stream needs it."""
    found = df.sparkSession.conf.get(_PROVIDER, "")
    if "RocksDB" not in str(found):
        raise InputError(
            f"{_PROVIDER}: {found!r}; streams need the RocksDB state store: set it to {_ROCKSDB}, "
            "as in stream_leip_connectors.spark.SETTINGS"
        )
