"""The demo is the connector as it really is, and ends by itself."""

import re
import time
from pathlib import Path

import pytest

from tests.commands import run

pytestmark = pytest.mark.needs_kafka


def test_it_ends_with_two_sentences(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = run("kafka", "demo", "--events", "4000", "--rate", "2000", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begun < 60.0
    first, second = done.stdout.splitlines()
    assert re.fullmatch(
        r"4,000 events went through Apache Kafka \S+ in \d+ s, and the connector wrote \d+ "
        r"updates, each once\.",
        first,
    )
    change = r"The mix changed at event 2,000, the alarm was raised by event 2,\d\d\d, and "
    assert re.match(change, second)
    away, before = map(float, re.findall(r"0\.\d{3}", second))
    assert away < 0.1 < before
    assert "stream-leip kafka run --profile profile.json" in done.stderr
    assert not list(tmp_path.iterdir())
