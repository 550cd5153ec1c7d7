"""Spark on this machine, as small as it gets."""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def start(folder: Path, **more: str) -> Any:
    """A session on two cores, with all its files in a folder."""
    from pyspark.sql import SparkSession
    from stream_leip_connectors.spark import KAFKA_PACKAGE, SETTINGS

    settings = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",  # none of ours hangs on it
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.log.level": "ERROR",
        "spark.python.authenticate.socketTimeout": "300s",  # for machines that others use too
        # Java loads it once, when it starts.
        "spark.jars.packages": KAFKA_PACKAGE,
        **SETTINGS,
        **more,
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return SparkSession.builder.config(map=settings).getOrCreate()


@contextmanager
def running(folder: Path, **more: str) -> Iterator[Any]:
    """A session that ends; its Java process stays for those that follow."""
    session = start(folder, **more)
    try:
        yield session
    finally:
        session.stop()
        with warnings.catch_warnings():
            # py4j leaves its sockets to the garbage collector; no other test shall trip over them.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
