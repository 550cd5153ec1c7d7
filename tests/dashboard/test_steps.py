"""The bounded past against one that keeps everything."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_leip_connectors.dashboard.records import Alarm, Record
from stream_leip_connectors.dashboard.steps import FEWEST_STEPS, MOST_STEPS, Steps

Everything = dict[str, Any]


def fill(n: int, classes: int, most_bytes: int, seed: int) -> tuple[Steps, Everything]:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.ones(classes), n).astype(np.float32)
    low, high = np.float32(0.9) * prior, np.minimum(np.float32(1.1) * prior, np.float32(1.0))
    value = rng.normal(size=n)
    steps = Steps(classes, most_bytes)
    for i in range(n):
        known = rng.random() < 0.8
        if not known:
            low[i] = high[i] = np.nan
        steps.add(
            Record(
                msgspec.Raw(b"[]"),
                prior=prior[i].tolist(),
                low=low[i].tolist() if known else None,
                high=high[i].tolist() if known else None,
                number=10 * (i + 1),
                n=i,
                alarm=Alarm(value=float(value[i]), threshold=3.0),
            ),
            received=float(i),
        )
        assert len(steps) <= steps.most
    return steps, {"prior": prior, "low": low, "high": high, "alarm": value}


def hull(lines: Any, reduce: Any) -> Any:
    """By hand: over what is known; NaN where nothing is."""
    known = lines[~np.isnan(lines).any(axis=1)]
    return np.full(lines.shape[1], np.nan) if len(known) == 0 else reduce(known, axis=0)


@settings(max_examples=40)
@given(
    n=st.integers(1, 3000),
    classes=st.integers(2, 4),
    most_bytes=st.sampled_from([1, 4000, 20_000, 1 << 21]),
    seed=st.integers(0, 99),
)
def test_every_step_says_what_its_updates_said(
    n: int, classes: int, most_bytes: int, seed: int
) -> None:
    steps, all_of = fill(n, classes, most_bytes, seed)
    past = steps.past()
    assert past.updates.sum() == n
    assert steps.nbytes <= max(most_bytes, FEWEST_STEPS * (16 * classes + 80))
    ends = np.cumsum(past.updates).astype(int)
    begins = ends - past.updates.astype(int)
    np.testing.assert_array_equal(past.number, 10.0 * ends)
    np.testing.assert_array_equal(past.n, ends - 1.0)
    np.testing.assert_array_equal(past.prior, all_of["prior"][ends - 1])
    for i, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        np.testing.assert_array_equal(past.low[i], hull(all_of["low"][begin:end], np.min))
        np.testing.assert_array_equal(past.high[i], hull(all_of["high"][begin:end], np.max))
        assert past.alarm[i] == all_of["alarm"][begin:end].max()
    # The first, and the newest, are as they came.
    assert past.updates[0] == 1
    assert (past.updates[-min(n, steps.exact) :] == 1).all()


@pytest.mark.parametrize("n", [1000, 30_000])
def test_steps_are_coarser_further_back(n: int) -> None:
    steps, _ = fill(n, 2, 1 << 21, 0)
    updates = steps.past().updates
    # A step that ends where the next size begins may be a part of one.
    largest = np.maximum.accumulate(updates[:0:-1])[::-1]
    assert (updates[1:] >= largest / 8).mean() > 0.9
    thirds = [part.mean() for part in np.array_split(updates[1:], 3)]
    assert thirds[0] > thirds[1] >= thirds[2]
    assert MOST_STEPS / 2 < len(updates) <= MOST_STEPS


def test_memory_stays_where_it_is() -> None:
    steps, _ = fill(2000, 3, 1 << 21, 0)
    before = steps.nbytes
    record = Record(msgspec.Raw(b"[]"), prior=[0.2, 0.3, 0.5], number=1)
    for _ in range(20_000):
        steps.add(record, 0.0)
    assert steps.nbytes == before
