"""What is kept when an estimator or a callback of the user's own raises."""

from typing import Any

import numpy as np
import pytest

from stream_leip import LEIP, KeyedMonitor, Monitor, Tumbling
from tests.streams import PROFILE, ROW

SCORES = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 40)


class Moody:
    """An estimator that raises in the calls it is told to."""

    def __init__(self, *bad_calls: int) -> None:
        self.bad_calls = bad_calls
        self.calls = 0

    def estimate(self, rows: Any, profile: Any, *, weights: Any = None, start: Any = None) -> Any:
        self.calls += 1
        if self.calls in self.bad_calls:
            raise ArithmeticError(f"call {self.calls}")
        return LEIP().estimate(rows, profile, weights=weights)


def test_a_batch_is_taken_whole_though_an_estimator_raises() -> None:
    calm, moody = (Monitor(PROFILE, Tumbling(count=10), Moody(*bad)) for bad in ((), (2, 3)))
    calm.update_many(SCORES[:35])
    with pytest.raises(ArithmeticError, match="call 2"):
        moody.update_many(SCORES[:35])
    assert moody.snapshot() == calm.snapshot()
    (update,) = moody.update_many(SCORES[35:])
    assert (update.sequence, update.first, update.last) == (3, 30, 39)


def test_one_event_is_taken_though_an_estimator_raises() -> None:
    calm, moody = (Monitor(PROFILE, Tumbling(count=2), Moody(*bad)) for bad in ((), (1,)))
    for monitor in (calm, moody):
        monitor.update(ROW)
    calm.update(ROW)
    with pytest.raises(ArithmeticError):
        moody.update(ROW)
    assert (moody.events, moody.estimate().n) == (calm.events, 2)
    moody.update(ROW)
    assert moody.update(ROW)[0].sequence == 1


@pytest.mark.parametrize("max_keys", [None, 3])
def test_other_keys_are_taken_though_one_raises(max_keys: int | None) -> None:
    keyed = KeyedMonitor(PROFILE, Tumbling(count=5), Moody(1), max_keys=max_keys)
    with pytest.raises(ArithmeticError, match="call 1"):
        keyed.update_many(["a", "b", "c", "a"] * 10, SCORES)
    assert {key: keyed.monitor(key).events for key in keyed} == {"a": 20, "b": 10, "c": 10}
    assert len(keyed.update_many(["b"] * 5, SCORES[:5])) == 1


@pytest.mark.parametrize("many", [True, False])
def test_events_in_time_are_taken_though_on_late_raises(many: bool) -> None:
    def full(*late: Any) -> None:
        raise OSError("the side output is full")

    monitor = Monitor(PROFILE, Tumbling(seconds=10), on_late=full)
    times = [5.0, 25.0, 7.0, 26.0, 27.0]
    if many:
        with pytest.raises(OSError, match="is full"):
            monitor.update_many(SCORES[:5], times)
    else:
        for row, time in zip(SCORES, times, strict=False):
            if time == 7.0:
                with pytest.raises(OSError, match="is full"):
                    monitor.update(row, time)
            else:
                monitor.update(row, time)
    assert (monitor.events, monitor.late, monitor.estimate().n) == (5, 1, 3)
    assert monitor.estimate().last == 4


def test_a_key_that_cannot_be_stored_stays() -> None:
    def full(key: str, snapshot: bytes) -> None:
        raise OSError("the store is full")

    keyed = KeyedMonitor(PROFILE, Tumbling(count=9), max_keys=2, on_expire=full)
    with pytest.raises(OSError, match="store is full"):
        keyed.update_many(["a", "b", "c", "a"], SCORES[:4])
    assert {key: keyed.monitor(key).events for key in keyed} == {"b": 1, "a": 2}
