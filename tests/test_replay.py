"""Replays: the scores, and what monitors are told."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from stream_leip import (
    InputError,
    KeyedMonitor,
    Monitor,
    Sliding,
    SourceProfile,
    Tumbling,
    fit_profile,
)
from stream_leip.replay import (
    Constant,
    Events,
    Linear,
    Point,
    Pool,
    ReplayResult,
    Square,
    Stream,
    Sudden,
    Temperature,
    Traffic,
    Walk,
    replay,
)
from stream_leip.replay.judging import AlarmScore, EstimateScore, PredictionScore
from tests.replays import scored


@pytest.fixture(scope="module")
def profile() -> SourceProfile:
    return fit_profile(*scored(1500, 0), classes=["a", "b", "c"])


@pytest.fixture(scope="module")
def pool() -> Pool:
    return Pool(*scored(3000, 1))


def slow_replay(
    monitor: Monitor, stream: Stream, chunk: int
) -> tuple[list[tuple[int, NDArray[Any]]], dict[str, float]]:
    """One monitor, event by event, in plain Python."""
    profile, source = monitor.profile, monitor.profile.soft_prior
    events = [e for each in stream.chunks(chunk) for e in range(len(each))]
    flat = Events.joined(list(stream.chunks(chunk)))
    points: list[tuple[int, NDArray[Any]]] = []
    standing = adapting = source
    sums = dict.fromkeys(("unadapted", "adapted", "known", "loss", "standing", "good"), 0.0)
    reached = 0
    for i, at in enumerate(events):
        if at == 0:
            adapting = monitor.adapting_prior
            standing = points[-1][1] if points else source
        if not flat.bad[i]:
            row = profile.rows(flat.scores[i : i + 1])[0].astype(float)
            label = flat.labels[i]
            adapted = row * adapting / source
            known = row * flat.truths[i] / source
            sums["good"] += 1
            sums["unadapted"] += row.argmax() == label
            sums["adapted"] += adapted.argmax() == label
            sums["known"] += known.argmax() == label
            sums["loss"] -= np.log(adapted[label] / adapted.sum())
            sums["standing"] += np.abs(standing - flat.truths[i]).sum() / 2
        reached = max(reached, int(flat.numbers[i]) + 1)
        for update in monitor.update(flat.scores[i], flat.times[i]):
            assert update.prior is not None
            points.append((reached, update.prior))
    return points, sums


MAKERS: list[Callable[[SourceProfile], Monitor]] = [
    lambda profile: Monitor(profile, Tumbling(count=130), "EM", on_bad="skip"),
    lambda profile: Monitor(profile, Sliding(count=400, every=100), on_bad="skip"),
]


@pytest.mark.parametrize("chunk", [1, 64, 1000])
@pytest.mark.parametrize("make", MAKERS)
def test_a_replay_is_what_a_plain_loop_finds(
    profile: SourceProfile, pool: Pool, make: Callable[[SourceProfile], Monitor], chunk: int
) -> None:
    schedule = Square(to=[0.8, 0.1, 0.1], pieces=4)
    traffic = Traffic(out_of_order=0.2, delay=0.02, duplicates=0.05, bad=0.05)
    given: list[Point] = []
    result = replay(
        {"m": make(profile)},
        pool,
        schedule,
        2000,
        traffic=traffic,
        chunk=chunk,
        seed=5,
        on_update=lambda name, point: given.append(point),
    )
    stream = Stream(pool, schedule, 2000, profile.soft_prior, traffic, seed=5)
    points, sums = slow_replay(make(profile), stream, chunk)
    track = result.tracks["m"]
    assert [point.number for point in given] == [number for number, _ in points]
    assert [point.number for point in track.points] == [number for number, _ in points]
    for point, (number, prior) in zip(track.points, points, strict=True):
        assert point.update.prior is not None
        np.testing.assert_array_equal(point.update.prior, prior)
        np.testing.assert_allclose(point.truth, stream.plan.priors(0, 2000)[number - 1])
    truths = stream.plan.priors(0, 2000)[[number - 1 for number, _ in points]]
    priors = np.array([prior for _, prior in points])
    apart = np.abs(priors - truths).sum(axis=1)
    errors = track.errors
    assert errors.l1 == pytest.approx(apart.mean())
    assert errors.total_variation == pytest.approx(apart.mean() / 2)
    squares = ((priors - truths) / profile.soft_prior) ** 2
    assert errors.weights_mse == pytest.approx(squares.mean())
    good = sums["good"]
    assert errors.standing == pytest.approx(sums["standing"] / good)
    assert track.adapted.accuracy == pytest.approx(sums["adapted"] / good)
    assert result.unadapted.accuracy == pytest.approx(sums["unadapted"] / good)
    assert result.with_truth.accuracy == pytest.approx(sums["known"] / good)
    assert track.adapted.log_loss == pytest.approx(sums["loss"] / good, rel=1e-5)
    assert errors.coverage == pytest.approx(held(track.points))
    assert track.alarms is None
    assert result.counts["events"] == good + result.counts["bad"]


def held(points: Sequence[Point]) -> float:
    """The share of intervals, of all classes and updates, that the truth is in."""
    inside = []
    for point in points:
        low, high = point.update.low, point.update.high
        assert low is not None
        assert high is not None
        inside.append(np.mean((low <= point.truth) & (point.truth <= high)))
    return float(np.mean(inside))


def test_counts_and_changes(profile: SourceProfile, pool: Pool) -> None:
    traffic = Traffic(late=0.05, late_by=5.0, duplicates=0.1, bad=0.1, rate=1000.0)
    monitor = Monitor(profile, Tumbling(seconds=1.0, lateness=2.0), "EM", on_bad="skip")
    result = replay({"m": monitor}, pool, Sudden(at=0.5), 20_000, traffic=traffic, chunk=500)
    assert result.changes == (10_000,)
    assert result.counts["events"] == 20_000 + result.counts["duplicate"]
    assert monitor.bad == result.counts["bad"]
    # Nothing is late for windows that have not begun, or that no later event has closed.
    assert 0.7 < monitor.late / (result.counts["late"] * 0.9) < 1.1


def test_series_are_bounded_and_keep_the_last(profile: SourceProfile, pool: Pool) -> None:
    monitors = {"m": Monitor(profile, Tumbling(count=50), "EM")}
    result = replay(monitors, pool, Linear(), 10_000, points=30, chunk=1000)
    track = result.tracks["m"]
    assert track.updates == 200
    assert len(track.points) <= 30
    assert track.points[-1].number == 10_000
    assert len(track.adapted.over_time) == len(result.stretches) == len(result.truth) == 30
    accuracy = float(np.mean(result.unadapted.over_time))
    assert accuracy == pytest.approx(result.unadapted.accuracy, abs=1e-3)


def test_monitors_side_by_side_see_the_same(profile: SourceProfile, pool: Pool) -> None:
    alone = replay({"a": MAKERS[0](profile)}, pool, Walk(), 3000)
    both = replay({"b": MAKERS[1](profile), "a": MAKERS[0](profile)}, pool, Walk(), 3000)
    assert msgspec.json.encode(alone.to_dict()["monitors"]["a"]) == msgspec.json.encode(
        both.to_dict()["monitors"]["a"]
    )


def test_keyed_monitors(profile: SourceProfile, pool: Pool) -> None:
    traffic = Traffic(keys=("north", "south"), bad=0.02)
    keyed = KeyedMonitor(profile, Tumbling(count=200), "EM", on_bad="skip")
    result = replay({"k": keyed}, pool, Sudden(to=[0.8, 0.1, 0.1]), 4000, traffic=traffic)
    track = result.tracks["k"]
    assert {point.update.key for point in track.points} == {"north", "south"}
    assert track.updates == sum(keyed.monitor(key).events // 200 for key in keyed)
    assert track.adapted.accuracy > result.unadapted.accuracy
    numbers = [point.number for point in track.points]
    assert numbers == sorted(numbers)


def test_records_are_json(profile: SourceProfile, pool: Pool) -> None:
    result = replay({"m": MAKERS[0](profile)}, pool, Sudden(), 1000)
    records = [msgspec.json.decode(msgspec.json.encode(each)) for each in result.records()]
    assert len(records) == 7
    assert records[0]["monitor"] == "m"
    assert records[0]["number"] == 130
    assert sum(records[0]["truth"]) == pytest.approx(1.0)
    plain = msgspec.json.decode(msgspec.json.encode(result.to_dict()))
    assert plain["monitors"]["m"]["errors"]["coverage"] == result.tracks["m"].errors.coverage
    assert "with the true mix" in str(result)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"monitors": {}}, "monitors: there are none"),
        ({"n": 0}, "n: 0; use a whole number"),
        ({"chunk": 0}, "chunk: 0"),
        ({"points": 1}, "points: 1"),
        ({"seed": -1}, "seed: -1"),
        ({"schedule": None}, "schedule: None is no schedule"),
        ({"traffic": Traffic(bad=0.5)}, "refuses a bad event"),
        ({"pool": Pool(np.eye(2), [0, 1])}, "2 columns, but the profile has 3 classes"),
        ({"pool": Pool(np.eye(3)[:2], [0, 1])}, "no row of class 2"),
        ({"violations": [Temperature(begin=2.0)]}, "begin: 2.0 is not in a stretch"),
    ],
)
def test_bad_arguments_are_named(
    profile: SourceProfile, pool: Pool, change: dict[str, Any], says: str
) -> None:
    arguments: dict[str, Any] = {
        "monitors": {"m": Monitor(profile, Tumbling(count=100))},
        "pool": pool,
        "schedule": Constant(),
        "n": 1000,
        **change,
    }
    with pytest.raises(InputError) as error:
        replay(**arguments)
    assert says in str(error.value)


def test_monitors_that_do_not_fit_are_refused(profile: SourceProfile, pool: Pool) -> None:
    with pytest.raises(InputError, match="'k' is keyed, but events have no keys"):
        replay({"k": KeyedMonitor(profile)}, pool, Constant(), 100)
    other = fit_profile(*scored(600, 9))
    with pytest.raises(InputError, match="'o' has another profile"):
        replay({"m": Monitor(profile), "o": Monitor(other)}, pool, Constant(), 100)


def test_alarms_are_judged_by_the_truth() -> None:
    home, away = np.array([0.5, 0.5]), np.array([0.8, 0.2])
    score = AlarmScore(home)
    assert score.result((100,), 200) is None
    quiet = {"value": 0.1, "warning": False, "raised": False}
    loud = {"value": 9.0, "warning": True, "raised": True}
    for number in range(10, 201, 10):
        truth = home if number <= 100 else away
        score.follow(truth[None])
        # It cries wolf at 30, and finds the change at 100 when 120 events are past.
        score.add(loud if number in (30, 120, 130) else quiet, number, truth)
    found = score.result((100,), 200)
    assert found is not None
    assert found.raised == (30, 120)
    assert found.warned == (30, 120)
    assert found.false == 1
    assert found.delays == (20,)
    quietly = score.result((), 200)
    assert quietly is not None
    assert quietly.delays == ()
    missed = score.result((100, 150), 200)
    assert missed is not None
    assert missed.delays == (20, None)


def test_coverage_is_the_share_of_intervals_that_hold_the_truth() -> None:
    score = EstimateScore(np.array([0.5, 0.5]), 1)
    truth = np.array([0.4, 0.6])
    score.add_update(truth, truth, np.array([0.3, 0.5]), np.array([0.5, 0.7]))
    score.add_update(truth, truth, np.array([0.41, 0.5]), np.array([0.5, 0.6]))
    found = score.result()
    assert found.coverage == 0.75
    assert found.width == pytest.approx((0.2 + 0.2 + 0.09 + 0.1) / 4)


def test_predictions_are_scored_by_class_and_stretch() -> None:
    score = PredictionScore(3, 2)
    rows = np.array([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.2, 0.5, 0.3]], np.float32)
    score.add(rows, np.array([0, 1, 1]), np.array([0, 0, 1]))
    found = score.result()
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.macro_recall == pytest.approx((1 + 0.5) / 2)
    assert found.log_loss == pytest.approx(-np.log([0.8, 0.1, 0.5]).mean(), rel=1e-6)
    np.testing.assert_array_equal(found.over_time, [0.5, 1.0])


def test_a_result_without_an_update_has_no_errors(profile: SourceProfile, pool: Pool) -> None:
    found: ReplayResult = replay({"m": Monitor(profile)}, pool, Constant(), 10)
    assert found.tracks["m"].updates == 0
    assert found.to_dict()["monitors"]["m"]["errors"]["total_variation"] is None
