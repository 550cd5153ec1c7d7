"""Monitors: the invariants of streaming, for every window."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_leip import (
    BBSE,
    EM,
    LEIP,
    BadRowsError,
    Fading,
    InputError,
    KeyedMonitor,
    Monitor,
    Sliding,
    SnapshotError,
    Tumbling,
    Update,
)
from stream_leip.windows import Window
from tests.strategies import make_profile
from tests.streams import (
    PROFILE,
    ROW,
    Stream,
    check,
    every_window,
    mistyped,
    plain,
    streams,
)


def whole(window: Window, stream: Stream, **settings: Any) -> tuple[Monitor, list[Update]]:
    monitor = Monitor(PROFILE, window, on_bad="skip", **settings)
    return monitor, monitor.update_many(*stream)


@every_window
@given(
    stream=streams(),
    data=st.data(),
    cap=st.sampled_from([None, 5, 9]),
    top_k=st.sampled_from([None, 2]),
)
@settings(max_examples=80)
def test_the_split_into_batches_does_not_matter(
    window: Window, stream: Stream, data: st.DataObject, cap: int | None, top_k: int | None
) -> None:
    scores, times = stream
    late_whole: list[float] = []
    late_split: list[float] = []
    _, expected = whole(
        window,
        stream,
        max_rows=cap,
        top_k=top_k,
        on_late=lambda r, t, e: late_whole.extend(t.tolist()),
    )
    monitor = Monitor(
        PROFILE,
        window,
        on_bad="skip",
        max_rows=cap,
        top_k=top_k,
        on_late=lambda r, t, e: late_split.extend(t.tolist()),
    )
    found: list[Update] = []
    begin = 0
    while begin < len(scores):
        size = data.draw(st.integers(1, 20))
        if size < 4:
            found += monitor.update(scores[begin], float(times[begin]))
            begin += 1
        else:
            found += monitor.update_many(scores[begin : begin + size], times[begin : begin + size])
            begin += size
    assert plain(found) == plain(expected)
    assert late_split == late_whole


@every_window
@given(
    stream=streams(),
    cut=st.floats(0, 1),
    cap=st.sampled_from([None, 5]),
    top_k=st.sampled_from([None, 2]),
)
@settings(max_examples=30)
def test_restore_equals_never_stopped(
    window: Window, stream: Stream, cut: float, cap: int | None, top_k: int | None
) -> None:
    scores, times = stream
    at = int(cut * len(scores))
    expected_monitor, expected = whole(window, stream, max_rows=cap, top_k=top_k)
    monitor = Monitor(PROFILE, window, on_bad="skip", max_rows=cap, top_k=top_k)
    found = monitor.update_many(scores[:at], times[:at])
    state = monitor.snapshot()
    restored = Monitor.restore(state, PROFILE)
    assert restored.snapshot() == state
    found += restored.update_many(scores[at:], times[at:])
    assert plain(found) == plain(expected)
    assert restored.snapshot() == expected_monitor.snapshot()
    assert plain([restored.estimate()]) == plain([expected_monitor.estimate()])


@pytest.mark.parametrize(("count", "every"), [(12, 12), (12, 4), (12, 1), (5, 5)])
@given(stream=streams(max_events=80))
@settings(max_examples=30)
def test_count_windows_equal_the_batch_bit_for_bit(count: int, every: int, stream: Stream) -> None:
    window = Tumbling(count=count) if every == count else Sliding(count=count, every=every)
    rows, _ = PROFILE.screen(stream[0])
    _, updates = whole(window, stream)
    assert len(updates) == len(rows) // every
    for k, update in enumerate(updates):
        end = (k + 1) * every
        begin = max(0, end - count)
        assert (update.first, update.last) == (begin, end - 1)
        check(update, rows[begin:end])


@every_window
def test_bad_events_change_nothing(window: Window) -> None:
    rng = np.random.default_rng(0)
    scores, times = rng.dirichlet(np.full(3, 0.4), 30), np.linspace(1000, 1050, 30)
    monitor = Monitor(PROFILE, window)
    monitor.update_many(scores, times)
    before = monitor.snapshot()
    spoilt = scores.copy()
    spoilt[17, 1] = np.nan
    attempts: list[Callable[[], object]] = [
        lambda: monitor.update_many(spoilt, times + 100),
        lambda: monitor.update(spoilt[17], 1100.0),
        lambda: monitor.update([0.5, 0.5], 1100.0),
        lambda: monitor.update(scores[0], float("nan")),
        lambda: monitor.update(scores[0], datetime(2026, 1, 1)),
        lambda: monitor.update_many(scores, times[:3]),
        lambda: monitor.update_many(scores, np.full(30, np.inf)),
        lambda: monitor.update_many(scores, np.arange(30).astype("datetime64[s]")),
        lambda: monitor.update_many(scores[:2], mistyped(["now", "then"])),
        lambda: monitor.update_many(scores * 2, times),
        lambda: monitor.advance(1e15),
    ]
    for attempt in attempts:
        with pytest.raises(InputError):
            attempt()
        assert monitor.snapshot() == before
    assert monitor.update_many([], [] if "seconds" in str(window) else None) == []
    assert monitor.snapshot() == before


def test_skipped_events_are_counted_and_said() -> None:
    monitor = Monitor(PROFILE, Tumbling(count=2), on_bad="skip")
    assert monitor.update([0.2, 0.3, 0.5]) == []
    assert monitor.update([0.2, 0.3, 0.9]) == []
    assert monitor.update([0.2, 0.3, 0.5], mistyped("now")) == []
    (update,) = monitor.update({"c0": 0.2, "c1": 0.3, "c2": 0.5})
    assert (update.n, update.bad, monitor.bad) == (2, 2, 2)


def test_estimate_now_is_of_what_is_in_scope_and_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    scores = rng.dirichlet(np.full(3, 0.4), 20)
    rows = PROFILE.rows(scores)
    monitor = Monitor(PROFILE, Sliding(count=8, every=4))
    assert monitor.estimate().n == 0
    updates = monitor.update_many(scores[:12])
    before = monitor.snapshot()
    assert {**monitor.estimate().to_dict(), "sequence": 2} == updates[-1].to_dict()
    assert monitor.snapshot() == before
    monitor.update_many(scores[12:14])
    check(monitor.estimate(), rows[8:14])


def test_a_chosen_estimator_is_the_prior_and_leip_and_em_are_there_too() -> None:
    rng = np.random.default_rng(1)
    scores = rng.dirichlet(np.full(3, 0.4), 50)
    for estimator, name in (
        ("LEIP", "LEIP"),
        ("EM", "EM"),
        (BBSE(), "BBSE"),
        (LEIP(prior="hard"), "LEIP"),
    ):
        chosen: Any = estimator
        (update,) = Monitor(PROFILE, Tumbling(count=50), chosen).update_many(scores)
        assert update.estimator == name
        assert update.leip is not None
        assert update.em is not None
        assert update.prior is not None
        assert update.buffered is not None
        restored = Monitor.restore(Monitor(PROFILE, Tumbling(count=50), chosen).snapshot(), PROFILE)
        np.testing.assert_array_equal(restored.update_many(scores)[0].prior, update.prior)


def test_fading_weighs_panes_by_their_age() -> None:
    rng = np.random.default_rng(2)
    scores = rng.dirichlet(np.full(3, 0.4), 30)
    rows = PROFILE.rows(scores)
    update: Any
    *_, update = Monitor(PROFILE, Fading(half_life=10, every=10)).update_many(scores)
    weights = np.repeat([0.25, 0.5, 1.0], 10)
    expected = EM().estimate(rows, PROFILE, weights=weights).prior
    np.testing.assert_allclose(update.em, expected, atol=1e-4)
    expected = LEIP().estimate(rows, PROFILE, weights=weights).prior
    np.testing.assert_allclose(update.leip, expected, atol=1e-12)


def test_the_cap_holds_and_is_said() -> None:
    rng = np.random.default_rng(3)
    monitor = Monitor(PROFILE, Sliding(count=4000, every=500), max_rows=300)
    for update in monitor.update_many(rng.dirichlet(np.full(3, 0.4), 8000)):
        assert 100 < update.n <= 300
        assert update.n + update.thinned == min(4000, 500 * (update.sequence + 1))


def test_snapshots_of_other_things_are_refused() -> None:
    monitor = Monitor(PROFILE, Tumbling(count=5))
    monitor.update_many([ROW] * 7)
    state = monitor.snapshot()
    other = make_profile(np.array([0.3, 0.3, 0.4]))
    with pytest.raises(SnapshotError, match=r"of profile .* restore with the profile"):
        Monitor.restore(state, other)
    with pytest.raises(SnapshotError, match="a str is not bytes"):
        Monitor.restore(mistyped("state"), PROFILE)
    with pytest.raises(SnapshotError, match="these bytes are a monitor"):
        KeyedMonitor.restore(state, PROFILE)
    newer = bytearray(state)
    for place in range(len(state)):
        newer[place] ^= 1
        with pytest.raises(SnapshotError):
            Monitor.restore(bytes(newer), PROFILE)
        newer[place] ^= 1


class Own:
    """An estimator of the user's own."""

    def estimate(self, rows: Any, profile: Any, *, weights: Any = None, start: Any = None) -> Any:
        return LEIP().estimate(rows, profile, weights=weights)


def test_an_estimator_of_the_users_own_is_passed_to_restore() -> None:
    state = Monitor(PROFILE, Tumbling(count=5), Own()).snapshot()
    with pytest.raises(SnapshotError, match="pass it to restore: estimator="):
        Monitor.restore(state, PROFILE)
    assert Monitor.restore(state, PROFILE, estimator=Own()).estimator.__class__ is Own
    keyed = KeyedMonitor(PROFILE, Tumbling(count=5), Own())
    keyed.update("a", ROW)
    again = KeyedMonitor.restore(keyed.snapshot(), PROFILE, estimator=Own())
    assert again.monitor("a").estimator.__class__ is Own


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Tumbling, "neither is given"),
        (lambda: Tumbling(count=1, seconds=1), "both are"),
        (lambda: Tumbling(count=0), "count: 0"),
        (lambda: Tumbling(count=mistyped(2.5)), "count: 2.5"),
        (lambda: Tumbling(seconds=0), "seconds: 0"),
        (lambda: Tumbling(seconds=float("nan")), "seconds: nan"),
        (lambda: Tumbling(seconds=mistyped("1m")), "seconds: '1m'"),
        (lambda: Tumbling(seconds=1, lateness=-1), "lateness: -1"),
        (lambda: Tumbling(seconds=1e-9), "too short"),
        (lambda: Sliding(count=10, every=3), "every: 3 does not divide"),
        (lambda: Sliding(seconds=10, every=20), "every: 20.* does not divide"),
        (lambda: Fading(half_life=0), "half_life: 0"),
        (lambda: Fading(half_life=timedelta(0)), "half_life"),
        (lambda: Fading(half_life=timedelta(hours=1), every=5), "use a timedelta"),
        (lambda: Monitor(PROFILE, mistyped("hourly")), "window: 'hourly'"),
        (lambda: Monitor(PROFILE, estimator="best"), "estimator: 'best'"),
        (lambda: Monitor(PROFILE, max_rows=0), "max_rows: 0"),
        (lambda: Monitor(PROFILE, top_k=0), "top_k: 0"),
        (lambda: Monitor(PROFILE, top_k=4), "top_k: 4; use 1 to 3"),
        (lambda: Monitor(PROFILE, estimator=BBSE(), top_k=2), "needs whole rows"),
        (lambda: Monitor(PROFILE, on_bad=mistyped("drop")), "on_bad: 'drop'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()


def test_adapting_uses_the_shrunk_prior() -> None:
    monitor = Monitor(PROFILE, Tumbling(count=10))
    scores = np.array([[0.3, 0.3, 0.4]])
    np.testing.assert_array_equal(monitor.adapt(scores), PROFILE.rows(scores))
    (update,) = monitor.update_many([[1.0, 0.0, 0.0]] * 10)
    assert update.prior is not None
    assert update.adapting_prior is not None
    assert update.prior[1] == pytest.approx(0, abs=1e-6)
    assert update.adapting_prior.min() > 0
    monitor.adapting_prior[:] = 0.0  # a copy
    assert update.adapting_prior.sum() == pytest.approx(1)
    weight = update.adapting_prior / PROFILE.soft_prior
    expected = scores * weight / (scores * weight).sum()
    np.testing.assert_allclose(monitor.adapt(scores), expected, rtol=1e-6)
    with pytest.raises(BadRowsError):
        monitor.adapt([[0.5, 0.5, 0.5]])


def test_an_update_is_plain_json() -> None:
    import json

    (update,) = Monitor(PROFILE, Tumbling(count=5)).update_many([ROW] * 5)
    found = json.loads(json.dumps(update.to_dict()))
    assert found["schema"] == 1
    assert found["classes"] == ["c0", "c1", "c2"]
    assert found["first"] == 0
    assert found["last"] == 4
    for name in ("memory", "changed_at", "alarm", "key", "start", "end"):
        assert found[name] is None
    assert set(found["check"]) == {"p", "flagged", "validation_share", "message"}
    assert all(
        low <= prior <= high
        for low, prior, high in zip(found["low"], found["prior"], found["high"], strict=True)
    )
    assert sum(found["confident"]) + found["buffered"] == 5


def test_updates_cannot_be_changed() -> None:
    (update,) = Monitor(PROFILE, Tumbling(count=5)).update_many([ROW] * 5)
    assert update.prior is not None
    with pytest.raises(ValueError, match="read-only"):
        update.prior[0] = 1.0


def test_settings_may_be_of_numpy() -> None:
    seconds: Any = np.float64(10)
    cap: Any = np.int64(5)
    monitor = Monitor(PROFILE, Tumbling(seconds=seconds), max_rows=cap)
    assert Monitor.restore(monitor.snapshot(), PROFILE).window == Tumbling(seconds=10.0)


def test_scalars_are_bad_events() -> None:
    monitor = Monitor(PROFILE, on_bad="skip")
    assert monitor.update(5.0) == []
    assert monitor.bad == 1


def test_a_window_takes_about_a_tenth_as_its_step() -> None:
    monitor = Monitor(PROFILE, Sliding(count=999))
    assert len(monitor.update_many([ROW] * 999)) == 27  # every 37


@pytest.mark.parametrize("seed", range(3))
def test_fewer_rows_than_classes_are_estimated_at_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m = 300
    rows = rng.dirichlet(np.full(m, 0.1), 100)
    profile = make_profile(rng.dirichlet(np.full(m, 5.0)))
    monitor = Monitor(profile, Tumbling(count=100), "EM", top_k=16)
    (update,) = monitor.update_many(rows)
    assert update.prior is not None
    assert update.prior.sum() == pytest.approx(1)
