"""Arguments of a wrong type get an error that names them, and change nothing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stream_leip import InputError, KeyedMonitor, Monitor, Tumbling, fit_profile

RNG = np.random.default_rng(0)
LABELS = RNG.integers(3, size=600)
SCORES = 2.0 * np.eye(3)[LABELS] + RNG.normal(size=(600, 3))
PROFILE = fit_profile(SCORES, LABELS)
MASKED = np.ma.masked_array(SCORES[:2], mask=[[False, False, True]] * 2)

Call = Callable[[Any, Any], object]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda one, many: one.update_many(SCORES[:2], times=3), "times: 3 is no list of times"),
        (lambda one, many: one.update_many(SCORES[:2], times="ab"), "times: 'ab' is no list"),
        (lambda one, many: one.update(SCORES[0], time=10**400), "time: 1.* is not in epoch"),
        (lambda one, many: one.advance(1j), "time: 1j is no time"),
        (lambda one, many: one.update_many(MASKED, [1.0, 2.0]), "class '2' is nan"),
        (lambda one, many: many.update_many(None, SCORES[:2]), "keys: None is no list of keys"),
        (lambda one, many: many.update_many("ab", SCORES[:2]), "keys: 'ab' is no list of keys"),
        (lambda one, many: many.estimate(["a"]), r"key: \['a'\] .list. is no string"),
        (lambda one, many: many.adapt(["a"], SCORES[:2]), r"key: \['a'\] .list. is no string"),
    ],
)
def test_a_wrong_type_is_named(call: Call, message: str) -> None:
    one, many = Monitor(PROFILE, Tumbling(seconds=10)), KeyedMonitor(PROFILE, Tumbling(count=100))
    before = one.snapshot(), many.snapshot()
    with pytest.raises(InputError, match=message):
        call(one, many)
    assert (one.snapshot(), many.snapshot()) == before


@pytest.mark.parametrize("times", [3, "ab"])
def test_no_times_at_all_are_refused_where_bad_events_are_skipped(times: Any) -> None:
    monitor = Monitor(PROFILE, Tumbling(seconds=10), on_bad="skip")
    with pytest.raises(InputError, match="is no list of times"):
        monitor.update_many(SCORES[:2], times)
    assert monitor.bad == 0
