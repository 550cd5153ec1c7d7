"""Workers share compiled kernels: one compiles, the others load what it left."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark import sessions

pytestmark = [
    pytest.mark.needs_spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # py4j's
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Workers with a cache of their own, each for one task."""
    folder = tmp_path_factory.mktemp("spark")
    own = {
        "spark.executorEnv.NUMBA_CACHE_DIR": str(folder / "kernels"),
        "spark.python.worker.reuse": "false",
    }
    with sessions.running(folder, **own) as session:
        yield session


def called(batches: Iterator[Any]) -> Iterator[Any]:
    """Call a small kernel, and say whether it had to be compiled."""
    import numpy as np
    import pyarrow as pa

    from stream_leip._kernels.labels import count

    for _ in batches:
        count(np.zeros(1, np.uint16), np.zeros(1))
    missed = len(count.stats.cache_misses)
    yield pa.RecordBatch.from_pydict({"process": [os.getpid()], "missed": [missed]})


def test_only_the_first_worker_compiles(spark: Any) -> None:
    one = spark.range(0, 10, 1, 1).mapInArrow(called, "process long, missed long")
    (first,), (second,) = one.collect(), one.collect()
    assert first["process"] != second["process"]
    assert (first["missed"], second["missed"]) == (1, 0)
