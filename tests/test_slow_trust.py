"""Intervals hold the truth as often as they say, and the check seldom cries wolf."""

import numpy as np
import pytest

from benchmarks.assumption import VIOLATIONS, false_flags, false_streams, power
from benchmarks.coverage import ASKED, Pool, measure
from benchmarks.datasets import Data
from stream_leip.assumption import THRESHOLD
from stream_leip.calibration import Method

pytestmark = pytest.mark.slow

# As far below what is asked as a few correlated trials may fall by chance.
CHANCE = 0.02


@pytest.mark.parametrize("data", list(Data), ids=str)
@pytest.mark.parametrize(
    ("method", "fitted"), [("BCTS", 500), ("BCTS", 8000), ("VS", 500), ("none", 2000), ("TS", 500)]
)
def test_intervals_hold_the_truth(data: Data, method: Method, fitted: int) -> None:
    found = measure(Pool.of(data), fitted, method, trials=20)
    for group, asked in ASKED.items():
        cells = [(held, n) for (_, of), (held, _, n) in found.items() if of == group]
        held = sum(share * n for share, n in cells) / sum(n for _, n in cells)
        assert held >= asked - CHANCE, f"{group}: {held:.3f} of {sum(n for _, n in cells)}"


@pytest.mark.parametrize("data", list(Data), ids=str)
def test_a_new_mix_is_seldom_flagged(data: Data) -> None:
    pool = Pool.of(data)
    for fitted in (500, 2000):
        found = np.concatenate(list(false_flags(pool, fitted, trials=15).values()))
        assert len(found) == 180
        assert np.mean(found < THRESHOLD) <= 0.05
    assert false_streams(pool, 2000, trials=10) <= 0.2


@pytest.mark.parametrize("data", list(Data), ids=str)
def test_changed_inputs_are_seen(data: Data) -> None:
    other = Pool.of(next(name for name in Data if name != data))
    found = power(Pool.of(data), other, 2000, trials=8)
    assert set(found) == set(VIOLATIONS)
    for name in ("logits × 0.7", "logits × 1.3", "noise of 2", "10 % foreign rows"):
        assert np.mean(found[name] < 0.05) >= 0.9, name
