"""A snapshot without rows, and the chunks of the rows, are as good as a whole one."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_leip import Adaptive, Monitor, Sliding, SnapshotError, Tumbling
from stream_leip.chunk import Chunk
from tests.streams import PROFILE, WINDOWS, Stream, plain, streams

CASES: list[dict[str, Any]] = [
    *({"window": window} for window in [*WINDOWS, Adaptive(every=50)]),
    *({"window": window, "max_rows": 9} for window in WINDOWS),
    {"window": Adaptive(every=50), "top_k": 2, "max_rows": 100},
    {"window": Sliding(count=12, every=4), "top_k": 2},
    {"window": Sliding(seconds=30.0, every=10.0, lateness=5.0), "top_k": 2, "max_rows": 9},
    {"window": Tumbling(count=7), "alarm": 0.05},
    {"window": Tumbling(seconds=10.0, lateness=7.0), "alarm": 0.05},
]


class Log:
    """Keeps a monitor as a connector does: what is new, and no longer than it is needed."""

    def __init__(self) -> None:
        self.small = b""
        self.chunks: dict[str, list[Chunk]] = {}
        self._events = 0

    def write(self, monitor: Monitor) -> None:
        for name, chunk in monitor.since(self._events).items():
            if len(chunk):
                stored = Chunk.from_bytes(chunk.to_bytes())
                self.chunks.setdefault(name, []).append(stored)
        for name, oldest in monitor.oldest.items():
            held = self.chunks.get(name, [])
            held[:] = [each for each in held if oldest is not None and each.events[-1] >= oldest]
        self._events = monitor.events
        self.small = monitor.snapshot(rows=False)

    def restore(self) -> Monitor:
        chunks = {name: Chunk.join(held) for name, held in self.chunks.items() if held}
        return Monitor.restore(self.small, PROFILE, chunks=chunks)


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=10)
@given(stream=streams(400), cuts=st.sets(st.integers(1, 400), max_size=12))
def test_restore_of_what_was_written_bit_by_bit(
    case: dict[str, Any], stream: Stream, cuts: set[int]
) -> None:
    scores, times = stream
    monitor = Monitor(PROFILE, on_bad="skip", **case)
    log = Log()
    edges = [0, *sorted(cut for cut in cuts if cut < len(scores)), len(scores)]
    for begin, end in itertools.pairwise(edges):
        restored = log.restore() if log.small else Monitor(PROFILE, on_bad="skip", **case)
        part = slice(begin, end)
        expected = plain(monitor.update_many(scores[part], times[part]))
        assert plain(restored.update_many(scores[part], times[part])) == expected
        assert restored.snapshot() == monitor.snapshot()
        log.write(monitor)
    assert plain([log.restore().estimate()]) == plain([monitor.estimate()])


def test_only_what_is_new_is_written() -> None:
    monitor = Monitor(PROFILE, Sliding(count=1000, every=100))
    rng = np.random.default_rng(0)
    monitor.update_many(rng.dirichlet(np.ones(3), 5050))
    assert {name: len(chunk) for name, chunk in monitor.since(0).items()} == {"window": 950}
    assert monitor.oldest == {"window": 4100}
    assert monitor.since(5030)["window"].events.tolist() == list(range(5030, 5050))
    assert len(monitor.snapshot(rows=False)) < 2000


def test_adaptive_memory_longer_than_what_it_holds() -> None:
    monitor = Monitor(PROFILE, max_rows=100)
    log = Log()
    rng = np.random.default_rng(0)
    for _ in range(40):
        monitor.update_many(rng.dirichlet(np.ones(3), 37))
        log.write(monitor)
    assert sum(map(len, log.chunks["tracker"])) < 300
    assert log.restore().snapshot() == monitor.snapshot()


@pytest.mark.parametrize("window", [Tumbling(count=100), Sliding(count=20, every=10), Adaptive()])
def test_rows_that_are_missing_are_missed(window: Any) -> None:
    monitor = Monitor(PROFILE, window)
    monitor.update_many(np.full((50, 3), 1 / 3))
    small = monitor.snapshot(rows=False)
    chunks = monitor.since(0)
    with pytest.raises(SnapshotError, match="rows that the snapshot speaks of"):
        Monitor.restore(small, PROFILE)
    fewer = {name: chunk.take(slice(1, None)) for name, chunk in chunks.items()}
    fewer = {name: chunk.take(chunk.events != 40) for name, chunk in fewer.items()}
    with pytest.raises(SnapshotError, match="rows that the snapshot speaks of"):
        Monitor.restore(small, PROFILE, chunks=fewer)
    assert Monitor.restore(small, PROFILE, chunks=chunks).snapshot() == monitor.snapshot()
