"""Doctests are not looked for in a connector whose client is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("pyspark") else ["stream_leip_connectors/spark"]
