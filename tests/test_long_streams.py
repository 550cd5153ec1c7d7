"""Streams of many events: restored monitors stay the same, and memory does not grow."""

from datetime import timedelta

import numpy as np
import pytest

from stream_leip import Fading, Monitor, Sliding, Tumbling
from stream_leip.windows import Window
from tests.streams import PROFILE, plain

LONG: list[Window] = [
    Tumbling(count=1000),
    Sliding(count=2000, every=500),
    Fading(half_life=500),
    Tumbling(seconds=60, lateness=5),
    Sliding(seconds=600, every=60, lateness=30),
    Fading(half_life=timedelta(seconds=120)),
]


@pytest.mark.parametrize("window", LONG, ids=str)
def test_ten_thousand_events_after_a_restore_nothing_tells(window: Window) -> None:
    rng = np.random.default_rng(4)
    scores = rng.dirichlet(np.full(3, 0.4), 13_337)
    times = (
        1e9 + np.cumsum(rng.exponential(0.5, 13_337)) - rng.choice([0, 20], 13_337, p=[0.9, 0.1])
    )
    monitor = Monitor(PROFILE, window)
    monitor.update_many(scores[:3337], times[:3337])
    restored = Monitor.restore(monitor.snapshot(), PROFILE)
    ours = restored.update_many(scores[3337:], times[3337:])
    assert plain(ours) == plain(monitor.update_many(scores[3337:], times[3337:]))
    assert restored.snapshot() == monitor.snapshot()
    assert len(ours) >= 5


@pytest.mark.parametrize(
    "window",
    [
        Tumbling(count=1000),
        Fading(half_life=5000, every=10_000),
        Sliding(seconds=600, every=60, lateness=30),
    ],
    ids=str,
)
def test_memory_does_not_grow_over_a_million_events(window: Window) -> None:
    rng = np.random.default_rng(5)
    scores = rng.dirichlet(np.full(3, 0.4), 50_000)
    monitor = Monitor(PROFILE, window)
    sizes = []
    for part in range(20):
        times = 1e9 + 25_000 * part + np.linspace(0, 25_000, 50_000, endpoint=False)
        monitor.update_many(scores, times)
        sizes.append(len(monitor.snapshot()))
    assert monitor.events == 10**6
    assert max(sizes[10:]) <= 1.02 * max(sizes[2:10])
