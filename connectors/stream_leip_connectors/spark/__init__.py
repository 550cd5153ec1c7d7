"""Spark Structured Streaming: the same panes on an existing engine (extra `spark`)."""

from stream_leip_connectors import extras

extras.pyspark()  # first: without Spark the error names the extra

from stream_leip_connectors.spark.adapting import adapt  # noqa: E402
from stream_leip_connectors.spark.schema import from_wire, to_wire  # noqa: E402
from stream_leip_connectors.spark.screening import bad_rows  # noqa: E402
from stream_leip_connectors.spark.settings import KAFKA_PACKAGE, SETTINGS  # noqa: E402
from stream_leip_connectors.spark.updates import prior_updates  # noqa: E402

__all__ = [
    "KAFKA_PACKAGE",
    "SETTINGS",
    "adapt",
    "bad_rows",
    "from_wire",
    "prior_updates",
    "to_wire",
]
