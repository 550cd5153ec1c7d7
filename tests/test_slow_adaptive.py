"""What adaptive memory and the alarm promise, in short; benchmarks/{tracking,alarm}.py in full."""

import numpy as np
import pytest

from benchmarks.alarm import delays, false_alarms
from benchmarks.coverage import Pool
from benchmarks.datasets import Data
from benchmarks.tracking import HELD, RECIPE, run, schedules

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("data", list(Data), ids=str)
def test_few_streams_without_a_change_warn_and_none_raise(data: Data) -> None:
    warned, raised = false_alarms(Pool.of(data), 2000, 60)
    assert warned <= 0.10  # 5 %, and two errors of 60 streams
    assert raised <= 0.02


@pytest.mark.parametrize("data", list(Data), ids=str)
def test_changes_are_found_first_second_and_back_home(data: Data) -> None:
    first, second, back = delays(Pool.of(data), 2000, 0.5, 6)
    assert first.warned <= 100
    assert first.raised <= 150
    assert second.raised <= 100
    assert back.raised <= 200


@pytest.mark.parametrize("name", ["sudden", "square", "all sudden", "all walk"])
def test_it_follows_as_its_recipe_does(name: str) -> None:
    pool = Pool.of(Data.MNIST)
    runs = [run(pool, schedules(10)[name], seed) for seed in range(2)]
    best = np.mean([each.fixed for each in runs], axis=0).min()
    ratio = np.mean([each.ours for each in runs]) / best
    assert ratio <= RECIPE[name][0] + 0.12
    assert np.mean([each.held for each in runs]) >= HELD[name] - 0.05
