"""Event time: watermarks, lateness, gaps, zones."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings

from stream_leip import InputError, Monitor, Sliding, Tumbling, Update
from stream_leip.windows import Window
from tests.streams import PROFILE, ROW, Stream, check, streams


def feed(window: Window, times: list[Any]) -> tuple[Monitor, list[Update]]:
    monitor = Monitor(PROFILE, window)
    return monitor, [update for time in times for update in monitor.update(ROW, time)]


@pytest.mark.parametrize(("seconds", "every", "lateness"), [(10, 10, 0), (30, 10, 0), (30, 10, 7)])
@given(stream=streams(max_events=80))
@settings(max_examples=30)
def test_time_windows_equal_the_batch_bit_for_bit(
    seconds: int, every: int, lateness: int, stream: Stream
) -> None:
    scores, times = stream
    good = ~np.isnan(scores).any(axis=1)
    rows, times = PROFILE.rows(scores[good]) if good.any() else np.empty((0, 3)), times[good]
    window = Sliding(seconds=seconds, every=every, lateness=lateness)
    monitor = Monitor(PROFILE, window)
    updates = monitor.update_many(scores[good], times)
    if len(times):
        updates += monitor.advance(float(times.max()) + 1000)
    # An event is late if the watermark before it had passed the end of its pane.
    latest, kept = -np.inf, []
    for i, time in enumerate(times):
        passed = np.floor((latest - lateness) / every) if latest > -np.inf else -np.inf
        kept += [i] if np.floor(time / every) >= passed else []
        latest = max(latest, time)
    on_time = np.array(kept, int)
    expected = {}
    for end in np.arange(900, 20_000, every):
        inside = on_time[(times[on_time] >= end - seconds) & (times[on_time] < end)]
        if len(inside):
            expected[float(end)] = inside
    assert [update.end for update in updates] == list(expected)
    for update, inside in zip(updates, expected.values(), strict=True):
        assert update.start == update.end - seconds  # type: ignore[operator]
        check(update, rows[inside])
    assert monitor.late == len(times) - len(on_time)


def test_windows_by_time_need_times() -> None:
    monitor = Monitor(PROFILE, Tumbling(seconds=10))
    attempts: list[Callable[[], object]] = [
        lambda: monitor.update([0.2, 0.3, 0.5]),
        lambda: monitor.update_many([[1, 0, 0]]),
    ]
    for attempt in attempts:
        with pytest.raises(InputError, match="windows by time need the time"):
            attempt()
    assert monitor.events == 0


def test_windows_align_to_the_epoch_whatever_the_zone() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    noon = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)
    _, updates = feed(
        Tumbling(seconds=60), [noon, noon.astimezone(east), noon + timedelta(seconds=60)]
    )
    (update,) = updates
    assert update.n == 2
    assert update.start == datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()
    assert update.end == datetime(2026, 3, 1, 12, 1, tzinfo=UTC).timestamp()
    assert "2026-03-01T12:00:00+00:00 to 2026-03-01T12:01:00+00:00" in str(update)


def test_an_event_on_the_boundary_opens_the_next_window() -> None:
    _, updates = feed(Tumbling(seconds=10), [0.0, 9.999, 10.0, 20.0])
    assert [(u.start, u.end, u.n) for u in updates] == [(0, 10, 2), (10, 20, 1)]


def test_lateness_keeps_windows_open() -> None:
    monitor, updates = feed(Tumbling(seconds=10, lateness=5), [1.0, 12.0, 2.0, 15.0, 3.0, 26.0])
    assert [(u.start, u.n, u.late) for u in updates] == [(0, 2, 0), (10, 2, 1)]
    assert monitor.late == 1


def test_late_events_are_handed_out() -> None:
    handed: list[Any] = []
    monitor = Monitor(PROFILE, Tumbling(seconds=10), on_late=lambda *late: handed.append(late))
    monitor.update_many([ROW, ROW, ROW], [5.0, 25.0, 7.0])
    ((rows, times, events),) = handed
    np.testing.assert_allclose(rows, [ROW])
    assert (times.tolist(), events.tolist()) == ([7.0], [2])


def test_idle_streams_are_closed_by_advance() -> None:
    monitor, updates = feed(Tumbling(seconds=10, lateness=5), [1.0, 2.0])
    assert updates == []
    assert monitor.advance(14.9) == []
    (update,) = monitor.advance(15.0)
    assert (update.n, update.end) == (2, 10.0)
    assert monitor.advance(12.0) == []
    monitor.update(ROW, 9.0)
    assert monitor.late == 1


def test_empty_windows_are_silent_or_said() -> None:
    times = [5.0, 45.0, 55.0]
    assert [u.n for u in feed(Tumbling(seconds=10), times)[1]] == [1, 1]
    updates = feed(Tumbling(seconds=10, emit_empty=True), times)[1]
    assert [(u.start, u.n) for u in updates] == [(0, 1), (10, 0), (20, 0), (30, 0), (40, 1)]
    empty = updates[1]
    assert empty.prior is None
    assert empty.to_dict()["prior"] is None
    assert "nothing to estimate" in str(empty)
    sliding = feed(Sliding(seconds=20, every=10), times)[1]
    assert [(u.start, u.n) for u in sliding] == [(-10, 1), (0, 1), (30, 1)]


def test_a_clock_that_jumps_far_ahead_gives_one_empty_update_for_the_gap() -> None:
    monitor, updates = feed(Tumbling(seconds=1, emit_empty=True), [0.5, 4e9, 1.5])
    assert [(u.start, u.end, u.n) for u in updates] == [(0, 1, 1), (1, 4e9, 0)]
    assert monitor.late == 1


def test_panes_of_a_tenth_of_a_second_have_sharp_edges() -> None:
    times = 1.7e9 + 0.1 * np.arange(60)
    updates = Monitor(PROFILE, Tumbling(seconds=0.1)).update_many([ROW] * 60, times)
    assert [update.n for update in updates] == [1] * 59
    for update, time in zip(updates, times, strict=False):
        assert update.start == pytest.approx(time, abs=1e-6)


def test_a_late_event_leaves_the_scope_as_it_is() -> None:
    for many in (True, False):
        monitor = Monitor(PROFILE, Tumbling(seconds=10))
        monitor.update(ROW, 5.0)
        monitor.advance(10.0)
        if many:
            monitor.update_many([ROW], [3.0])
        else:
            monitor.update(ROW, 3.0)
        assert monitor.estimate().n == 1


@pytest.mark.parametrize("back", [30.0, 3600.0, 1e9])
def test_a_clock_set_back_makes_events_late_until_it_has_caught_up(back: float) -> None:
    times = [1e9 + 5, 1e9 + 15, *(1e9 + 16 - back + np.arange(4)), 1e9 + 18, 1e9 + 25]
    monitor, updates = feed(Tumbling(seconds=10), times)
    assert [(u.start, u.n) for u in updates] == [(1e9, 1), (1e9 + 10, 2)]
    assert monitor.late == 4
    assert monitor.estimate().n == 1


@pytest.mark.parametrize("window", [Tumbling(seconds=10), Sliding(seconds=20, every=10)], ids=str)
def test_events_of_one_moment_stay_together(window: Window) -> None:
    times = [20.0] * 3 + [30.0] * 4 + [40.0] * 2
    monitor, updates = feed(window, times)
    assert monitor.late == 0
    at_once = Monitor(PROFILE, window).update_many([ROW] * 9, times)
    assert [u.to_dict() for u in at_once] == [u.to_dict() for u in updates]
    sizes = [3, 4] if isinstance(window, Tumbling) else [3, 7]
    assert [u.n for u in updates] == sizes


def test_summer_time_makes_no_hour_of_two() -> None:
    """One hour of the clock comes twice in autumn; windows go by what the zone makes of it."""
    berlin = ZoneInfo("Europe/Berlin")
    first = datetime(2026, 10, 25, 2, 30, tzinfo=berlin)
    second = first.replace(fold=1)
    after = datetime(2026, 10, 25, 3, 30, tzinfo=berlin)
    _, updates = feed(Tumbling(seconds=3600), [first, second, after])
    assert [u.n for u in updates] == [1, 1]
    assert updates[1].start == datetime(2026, 10, 25, 1, tzinfo=UTC).timestamp()
