"""Keyed monitors: the same as a monitor a key, expiry, budgets."""

import gc
import re
import tracemalloc
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_leip import (
    Adaptive,
    BadRowsError,
    Fading,
    InputError,
    KeyedMonitor,
    Monitor,
    Sliding,
    SnapshotError,
    Tumbling,
)
from stream_leip.windows import Window
from tests.strategies import make_profile
from tests.streams import PROFILE, ROW, Stream, every_window, plain, streams


@every_window
@given(
    stream=streams(),
    names=st.lists(st.sampled_from(["", "a", "β 🦊", "a\0b"]), min_size=60, max_size=60),
)
@settings(max_examples=25)
def test_keyed_equals_one_monitor_a_key(window: Window, stream: Stream, names: list[str]) -> None:
    scores, times = stream
    keys = names[: len(scores)]
    keyed = KeyedMonitor(PROFILE, window, on_bad="skip")
    found = keyed.update_many(keys, scores, times)
    good = ~np.isnan(scores).any(axis=1)
    for key in set(keys):
        mine = np.array([name == key for name in keys])
        if not (mine & good).any():
            assert key not in keyed  # bad events alone make no monitor, and evict none
            continue
        mine[: np.flatnonzero(mine & good)[0]] = False
        alone = Monitor(PROFILE, window, on_bad="skip")
        expected = plain(alone.update_many(scores[mine], times[mine]))
        assert plain([u for u in found if u.key == key]) == [{**e, "key": key} for e in expected]
        assert keyed.monitor(key).snapshot() == alone.snapshot()
    one_by_one = KeyedMonitor(PROFILE, window, on_bad="skip")
    events = zip(keys, scores, times, strict=True)
    assert plain(found) == plain(
        [u for k, s, t in events for u in one_by_one.update(k, s, float(t))]
    )
    assert one_by_one.snapshot() == keyed.snapshot()
    restored = KeyedMonitor.restore(keyed.snapshot(), PROFILE)
    assert restored.snapshot() == keyed.snapshot()


def test_keys_expire_into_snapshots_and_come_back() -> None:
    stored: dict[str, bytes] = {}
    keyed = KeyedMonitor(
        PROFILE,
        Tumbling(count=3),
        idle=60,
        on_expire=lambda key, state: stored.update({key: state}),
    )
    keyed.update("a", ROW, 0.0)
    keyed.update("b", ROW, 50.0)
    keyed.advance(100.0)
    assert list(keyed) == ["b"]
    assert list(stored) == ["a"]
    keyed.adopt("a", stored["a"], 100.0)
    keyed.update("a", ROW, 101.0)
    (update,) = keyed.update("a", ROW, 102.0)
    assert (update.n, update.key) == (3, "a")
    with pytest.raises(SnapshotError, match="all keys here have"):
        keyed.adopt("z", Monitor(PROFILE, Tumbling(count=4)).snapshot())
    with pytest.raises(InputError, match="'c' has no monitor"):
        keyed.estimate("c")
    assert keyed.estimate("a").key == "a"
    np.testing.assert_array_equal(keyed.adapt("c", [ROW]), PROFILE.rows([ROW]))


@pytest.mark.parametrize("many", [True, False])
def test_beyond_max_keys_the_longest_unseen_goes(many: bool) -> None:
    gone: list[str] = []
    keyed = KeyedMonitor(
        PROFILE, Tumbling(count=9), max_keys=2, on_expire=lambda key, state: gone.append(key)
    )
    keys = ["a", "b", "a", "c", "b"]
    if many:
        keyed.update_many(keys, [ROW] * 5)
    else:
        for key in keys:
            keyed.update(key, ROW)
    assert gone == ["b", "a"]
    assert list(keyed) == ["c", "b"]
    forgetful = KeyedMonitor(PROFILE, Tumbling(count=9), max_keys=2)
    forgetful.update_many(keys, [ROW] * 5)
    assert forgetful.forgotten == 2


def test_keys_are_strings_and_as_many_as_events() -> None:
    keyed = KeyedMonitor(PROFILE)
    wrong: Any = 7
    with pytest.raises(InputError, match=r"key: 7 .int. is no string"):
        keyed.update(wrong, ROW)
    with pytest.raises(InputError, match=r"key: 7 .int. is no string"):
        keyed.update_many(["a", wrong], [ROW, ROW])
    with pytest.raises(InputError, match="is not Unicode text"):
        keyed.update("\ud800", ROW)
    with pytest.raises(InputError, match="1 keys for 2 events"):
        keyed.update_many(["a"], [ROW, ROW])
    with pytest.raises(BadRowsError):
        keyed.update_many(["a", "b"], [ROW, [0.5, 0.5, 0.5]])
    assert len(keyed) == 0


class Mute:
    """A window of the user's own that does not say what it takes."""

    needs_time = False

    def open(self, layout: Any) -> Any:
        return object()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"max_keys": 0}, "max_keys: 0"),
        ({"idle": 0}, "idle: 0"),
        ({"max_bytes": 10**6}, "needs max_keys"),
        ({"max_bytes": 10**6, "max_keys": 10**6}, "too little for 1000000 keys; use .* or more"),
        ({"max_bytes": 10**9, "max_keys": 10, "window": Mute()}, "does not say what it takes"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        KeyedMonitor(PROFILE, **settings)


BUDGETED: list[Window] = [
    Tumbling(count=1000),
    Tumbling(seconds=400.0),
    Sliding(count=1000, every=50),
    Sliding(seconds=500.0, every=20.0, lateness=50.0),
    Fading(half_life=100, every=20),
    Fading(half_life=timedelta(seconds=100), every=timedelta(seconds=20)),
]
A_KEY, KEYS = 40_000, 10


@pytest.mark.parametrize("window", BUDGETED, ids=str)
@pytest.mark.parametrize(("size", "top_k"), [(150, None), (20_000, 2)])
def test_what_keys_hold_stays_within_the_budget(
    window: Window, size: int, top_k: int | None
) -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.full(12, 0.4), 2000)
    profile = make_profile(np.full(12, 1 / 12))

    def fill(count: int, budget: int) -> tuple[int, int]:
        gc.collect()
        tracemalloc.start()
        keyed = KeyedMonitor(profile, window, max_keys=count, max_bytes=budget, top_k=top_k)
        keys = [f"key {i}" for i in range(count)]
        cap = keyed.max_rows or 0
        # As many events as rows may be kept, and some more: the worst that can be.
        events = min(cap + 3, 1500)
        held = 0
        for begin in range(0, events, size):
            part = min(size, events - begin)
            for key in keys:
                at = rng.integers(len(scores) - part)
                times = 1e9 + begin + np.arange(part)
                keyed.update_many([key] * part, scores[at : at + part], times)
            gc.collect()
            held = max(held, tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        return held, cap

    # What is loaded once belongs to no key, and compiling while memory is traced takes minutes.
    warm = KeyedMonitor(profile, window, max_keys=1, max_bytes=A_KEY, top_k=top_k)
    for part in (150, 1500):
        warm.update_many(["warm"] * part, scores[:part], 1e9 + np.arange(float(part)))
    fill(2, 2 * A_KEY)
    held, cap = fill(KEYS, KEYS * A_KEY)
    assert held <= KEYS * A_KEY
    assert cap > 30


def test_what_adaptive_keys_hold_stays_within_the_budget() -> None:
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.full(10, 0.4), 6000)
    profile = make_profile(np.full(10, 0.1))

    def fill(count: int) -> int:
        gc.collect()
        tracemalloc.start()
        keyed = KeyedMonitor(profile, max_keys=count, max_bytes=100_000 * count)
        for i in range(count):
            keyed.update_many([f"key {i}"] * 6000, scores)
        assert keyed.max_rows == 400
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return held

    # What is loaded once belongs to no key, and compiling while memory is traced takes minutes.
    KeyedMonitor(profile, max_rows=800).update_many(["warm"] * 6000, scores)
    fill(1)
    assert fill(8) <= 800_000


def test_a_budget_caps_the_rows_of_each_key() -> None:
    rng = np.random.default_rng(0)
    keyed = KeyedMonitor(PROFILE, Tumbling(count=10**6), max_keys=10, max_bytes=10 * 10_000)
    keyed.update_many(["a"] * 5000, rng.dirichlet(np.full(3, 0.4), 5000))
    assert 30 < keyed.estimate("a").n < 10_000 / 22
    assert keyed.estimate("a").thinned > 4000
    fewer = KeyedMonitor(PROFILE, Tumbling(count=50), max_keys=10, max_bytes=10**9, max_rows=5)
    fewer.update_many(["a"] * 50, rng.dirichlet(np.full(3, 0.4), 50))
    assert fewer.estimate("a").n <= 5


def test_adaptive_keys_keep_the_rows_of_a_rung() -> None:
    profile = make_profile(np.full(10, 0.1))
    budgets = (70_000, 200_000, 400_000, 10**8)
    keyed = [KeyedMonitor(profile, max_keys=10, max_bytes=10 * each) for each in budgets]
    found = [each.max_rows or 0 for each in keyed]
    assert found == sorted(found)
    assert found[-1] == 25_600
    assert set(found) <= {50 << k for k in range(10)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"profile": "p.json"}, "profile: a str is none"),
        ({"window": "tumbling"}, "window: 'tumbling' is no window"),
        ({"max_rows": "3"}, "max_rows: '3'"),
        ({"window": Adaptive(), "max_rows": 30}, "max_rows: 30; adaptive memory needs 50 rows"),
        ({"max_bytes": "4 GB"}, "max_bytes: '4 GB'"),
    ],
)
def test_a_budget_does_not_hide_what_is_wrong(change: dict[str, Any], says: str) -> None:
    settings: dict[str, Any] = {
        "profile": PROFILE, "window": Tumbling(count=9), "max_keys": 9, "max_bytes": 10**9
    }  # fmt: skip
    with pytest.raises(InputError, match=re.escape(says)):
        KeyedMonitor(**(settings | change))


@pytest.mark.parametrize("name", ["", " ", "a/b\0c", "Ω·類", "x" * 10_000, "None", "-1", "\u202e"])
def test_keys_may_be_any_string(name: str) -> None:
    keyed = KeyedMonitor(PROFILE, Tumbling(count=2))
    (update,) = keyed.update_many([name, "other", name], [ROW] * 3)
    assert update.key == name
    again = KeyedMonitor.restore(keyed.snapshot(), PROFILE)
    assert list(again) == list(keyed)
    assert again.monitor(name).events == 2


def test_late_events_of_a_key_are_handed_out_with_it() -> None:
    handed: list[Any] = []
    window = Tumbling(seconds=10)
    keyed = KeyedMonitor(PROFILE, window, on_late=lambda *late: handed.append(late))
    keyed.update_many(["a", "b", "a", "b"], [ROW] * 4, [5.0, 5.0, 25.0, 7.0])
    assert handed == []
    restored = KeyedMonitor.restore(
        keyed.snapshot(), PROFILE, on_late=lambda *late: handed.append(late)
    )
    for each in (keyed, restored):
        each.update("a", ROW, 6.0)
    assert [(key, times.tolist()) for key, _, times, _ in handed] == [("a", [6.0])] * 2
