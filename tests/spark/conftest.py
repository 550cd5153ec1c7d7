"""One Spark session for the tests of a file; the Java process stays for all files."""

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark import sessions


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = sessions.start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
    with warnings.catch_warnings():
        # py4j leaves its sockets to the garbage collector; no other test shall trip over them.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
