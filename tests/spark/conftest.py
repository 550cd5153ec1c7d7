"""One Spark session for the tests of a file; the Java process stays for all files."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark import sessions


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with sessions.running(tmp_path_factory.mktemp("spark")) as session:
        yield session
