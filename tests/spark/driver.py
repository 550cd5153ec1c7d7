"""A query in a process of its own, to be killed: python -m tests.spark.driver FOLDER FILES."""

import sys
from pathlib import Path
from typing import Any

from tests.spark import sessions
from tests.spark.streams import SCHEMA
from tests.streams import PROFILE


def start(spark: Any, folder: Path, window: Any, **options: Any) -> Any:
    """Updates of the files in `in`, each a micro-batch, to `out`; state in `checkpoint`."""
    from stream_leip_connectors.spark import prior_updates

    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    df = reader.parquet(str(folder / "in"))
    updates = prior_updates(df, PROFILE, window, key="key", buckets=3, watermark=10.0, **options)
    writing = updates.writeStream.format("parquet").outputMode("append")
    writing = writing.option("checkpointLocation", str(folder / "checkpoint"))
    return writing.trigger(availableNow=True).start(str(folder / "out"))


if __name__ == "__main__":
    from stream_leip import Sliding

    where = Path(sys.argv[1])
    start(sessions.start(where), where, Sliding(seconds=20.0, every=5.0)).awaitTermination()
