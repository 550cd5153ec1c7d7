"""Streams to feed to monitors, and what to hold their updates against."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import EM, LEIP, Auto, Fading, Sliding, Tumbling, Update
from stream_leip.windows import Window
from tests.strategies import make_profile

PROFILE = make_profile(np.array([0.2, 0.3, 0.5]))
ROW = [0.2, 0.3, 0.5]
WINDOWS: list[Window] = [
    Tumbling(count=7),
    Sliding(count=12, every=4),
    Fading(half_life=6, every=5),
    Tumbling(seconds=10.0),
    Tumbling(seconds=10.0, lateness=7.0),
    Tumbling(seconds=10.0, lateness=7.0, emit_empty=True),
    Sliding(seconds=30.0, every=10.0, lateness=5.0),
    Sliding(seconds=30.0, every=10.0, emit_empty=True),
    Fading(half_life=timedelta(seconds=20), every=timedelta(seconds=10), lateness=5.0),
]
every_window = pytest.mark.parametrize("window", WINDOWS, ids=str)
Stream = tuple[NDArray[np.float64], NDArray[np.float64]]


@st.composite
def streams(draw: st.DrawFn, max_events: int = 60) -> Stream:
    """Scores, some bad, and times that mostly ascend, with ties, gaps and late ones."""
    n = draw(st.integers(1, max_events))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scores = rng.dirichlet(np.full(3, 0.4), n)
    steps = rng.choice([0.0, 0.5, 3.0, 12.0, 95.0], n, p=[0.3, 0.4, 0.2, 0.08, 0.02])
    times = 1000.0 + np.cumsum(steps) - rng.choice([0.0, 4.0, 25.0], n, p=[0.8, 0.15, 0.05])
    if draw(st.booleans()):
        scores[rng.random(n) < 0.1] = np.nan
    return scores, times


def mistyped(value: Any) -> Any:
    """A value that a type checker would refuse."""
    return value


def plain(updates: list[Update]) -> list[dict[str, Any]]:
    return [update.to_dict() for update in updates]


def batch(rows: NDArray[np.float32]) -> dict[str, NDArray[np.float64]]:
    """The batch estimators on rows in pane order: by top probability, ties by arrival."""
    ordered = np.ascontiguousarray(rows[np.argsort(-rows.max(axis=1), kind="stable")])
    return {
        "leip": LEIP().estimate(ordered, PROFILE).prior,
        "em": EM().estimate(ordered, PROFILE).prior,
        "prior": Auto().estimate(ordered, PROFILE).prior,
    }


def check(update: Update, rows: NDArray[np.float32]) -> None:
    assert update.n == len(rows)
    for name, prior in batch(rows).items():
        np.testing.assert_array_equal(getattr(update, name), prior)
