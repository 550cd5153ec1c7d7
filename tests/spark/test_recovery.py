"""A query that was stopped or killed goes on from its checkpoint as if nothing had been."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_leip import Sliding
from tests.spark.driver import start
from tests.spark.streams import Events, differences, draw, expected, found, write

pytestmark = [
    pytest.mark.needs_spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # py4j's
]

WINDOW = Sliding(seconds=20.0, every=5.0)
FILES = 5


def arriving(seed: int) -> tuple[Events, Events]:
    """Events in order, and as they come: late by up to ten seconds."""
    events = draw(seed, 1200)
    rng = np.random.default_rng(seed)
    arrival = np.argsort(events.times + rng.uniform(0, 10.0, len(events.keys)))
    return events, events.some(arrival)


def wait_for(path: Path, running: Any, seconds: float = 240.0) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        assert running(), "it ended before it came to that"
        assert time.monotonic() < until, f"{path} did not come in time"
        time.sleep(0.02)


def check(spark: Any, folder: Path, events: Events) -> None:
    """The union of what was written is what an undisturbed monitor says."""
    until = float(events.micros.max() // 1000) / 1e3 - 10.0
    wanted = expected(events, WINDOW, until)
    assert len(wanted) > 50
    assert not differences(found(spark.read.parquet(str(folder / "out"))), wanted)


def test_a_query_that_is_stopped_goes_on(spark: Any, tmp_path: Path) -> None:
    events, arrived = arriving(20)
    write(arrived, tmp_path / "in", FILES)
    query = start(spark, tmp_path, WINDOW)
    wait_for(tmp_path / "checkpoint/commits/1", lambda: query.isActive)
    query.stop()
    start(spark, tmp_path, WINDOW).awaitTermination()
    check(spark, tmp_path, events)


def test_a_driver_that_is_killed_goes_on(spark: Any, tmp_path: Path) -> None:
    events, arrived = arriving(21)
    write(arrived, tmp_path / "in", FILES)
    with (tmp_path / "log").open("wb") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", str(tmp_path)],
            cwd=Path(__file__).parents[2],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            wait_for(tmp_path / "checkpoint/commits/1", lambda: driver.poll() is None)
        finally:
            os.killpg(driver.pid, signal.SIGKILL)  # Java and the workers too
            driver.wait()
    assert not (tmp_path / f"checkpoint/commits/{FILES}").exists(), "there was nothing left to do"
    start(spark, tmp_path, WINDOW).awaitTermination()
    check(spark, tmp_path, events)
