"""Spark Structured Streaming: the same panes on an existing engine (extra `spark`)."""

from stream_leip_connectors import extras

extras.pyspark()  # first: without Spark the error names the extra

from stream_leip_connectors.spark.adapting import adapt  # noqa: E402
from stream_leip_connectors.spark.schema import to_wire  # noqa: E402
from stream_leip_connectors.spark.screening import bad_rows  # noqa: E402
from stream_leip_connectors.spark.updates import SETTINGS, prior_updates  # noqa: E402

__all__ = ["SETTINGS", "adapt", "bad_rows", "prior_updates", "to_wire"]
