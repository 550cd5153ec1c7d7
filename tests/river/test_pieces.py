"""Adapter, tracker and detector: the contracts of their base classes, and what they promise."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from river import base, compose, drift, stats, utils
from scipy.stats import binom
from stream_leip_connectors.river import LabelShiftDetector, PosteriorAdapter, PriorTracker

from stream_leip import EM, InputError, Monitor, Tumbling, fit_profile
from stream_leip.tracker import Tracker
from tests.river.events import NAMES, draw, posteriors, profile

EVEN = (1 / 3, 1 / 3, 1 / 3)
SHIFTED = (0.1, 0.1, 0.8)
PIECES: dict[str, Any] = {
    "adapter": PosteriorAdapter,
    "tracker": PriorTracker,
    "detector": LabelShiftDetector,
}


def by_name(row: Any) -> dict[str, float]:
    return dict(zip(NAMES, row.tolist(), strict=True))


def feed(piece: Any, rows: Any) -> None:
    verb = piece.learn_one if isinstance(piece, PosteriorAdapter) else piece.update
    for row in rows:
        verb(by_name(row))


def state_of(piece: Any) -> Any:
    if isinstance(piece, LabelShiftDetector):
        return piece.drift_detected, piece.warning_detected, piece.changed_at, piece.moved
    return piece.prior if isinstance(piece, PosteriorAdapter) else piece.get()


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))])
def test_a_copy_goes_on_as_the_piece_does(kind: str, duplicate: Any) -> None:
    piece = PIECES[kind](profile())
    feed(piece, draw(1230, EVEN, 1))
    other = duplicate(piece)
    for row in draw(400, SHIFTED, 2):
        feed(piece, row[None])
        feed(other, row[None])
        assert state_of(other) == state_of(piece)


@pytest.mark.parametrize("kind", PIECES)
def test_a_clone_is_new_and_a_piece_shows_its_arguments_in_short(kind: str) -> None:
    piece = PIECES[kind](profile(), estimator="EM")
    feed(piece, draw(300, SHIFTED, 1))
    clone = piece.clone()
    assert clone.profile.fingerprint == piece.profile.fingerprint
    assert clone.estimator == "EM"
    assert state_of(clone) == state_of(PIECES[kind](profile(), estimator="EM"))
    assert len(repr(piece)) < 200
    assert len(str(piece)) < 200
    if kind != "tracker":
        assert "SourceProfile(3 classes, 600 rows)" in repr(piece)
        assert repr(clone) == repr(piece)
    for settings in PIECES[kind]._unit_test_params():
        assert repr(PIECES[kind](**settings))


@pytest.mark.parametrize("kind", PIECES)
@pytest.mark.parametrize(
    ("x", "message"),
    [
        ({"ant": 0.5, "bee": 0.3, "dog": 0.2}, "class 'dog' is unknown; the classes .* ant, bee"),
        ({}, "no class is named"),
        ({"ant": 0.5, "bee": 0.2, "cat": 0.2}, "sum to 0.9, not 1"),
        ({"ant": math.nan, "bee": 0.5, "cat": 0.5}, "class 'ant' is nan"),
        ({"ant": 1.5, "bee": -0.5, "cat": 0.0}, "'bee' is -0.5, below zero"),
        ({"ant": "0.5", "bee": 0.3, "cat": 0.2}, "'0.5'"),
        ({"u": 0.5, "v": 1.0}, "class 'u' is unknown; .*for features, wrap the model"),
        (0.5, r"x: 0\.5 is no posterior; give a dict by class, or .* the 3 classes"),
        (None, "x: None is no posterior"),
        (np.full((1, 3), 1 / 3), r"an array of shape \(1, 3\) is not one posterior"),
    ],
)
def test_bad_posteriors_are_refused_and_change_nothing(kind: str, x: Any, message: str) -> None:
    piece = PIECES[kind](profile())
    feed(piece, draw(130, SHIFTED, 1))
    before = pickle.dumps(piece)
    verb = piece.learn_one if kind == "adapter" else piece.update
    with pytest.raises(InputError, match=message):
        verb(x)
    assert pickle.dumps(piece) == before


@pytest.mark.parametrize("kind", PIECES)
def test_what_is_no_profile_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match="profile: a dict is none; use fit_profile"):
        PIECES[kind]({})


def test_an_input_is_not_kept() -> None:
    tracker = PriorTracker(profile(), window="all")
    row = [0.8, 0.1, 0.1]
    tracker.update(row)
    before = tracker.get()
    row[:] = [0.0, 0.0, 1.0]
    assert tracker.get() == before


def test_the_adapter_says_what_the_monitor_says() -> None:
    rows = draw(800, SHIFTED, 1)
    adapter, monitor = PosteriorAdapter(profile()), Monitor(profile())
    for row in rows:
        adapter.learn_one(by_name(row))
    updates = monitor.update_many(rows)
    assert adapter.last_update is not None
    assert adapter.last_update.to_dict() == updates[-1].to_dict()
    assert adapter.alarm
    for row in draw(50, EVEN, 2):
        found = adapter.transform_one(by_name(row))
        np.testing.assert_array_equal(list(found.values()), monitor.adapt(row[None])[0])
    assert adapter.prior["cat"] == pytest.approx(0.8, abs=0.05)


def test_the_adapter_takes_names_of_any_type_and_lacking_classes() -> None:
    labels = np.random.default_rng(0).integers(3, size=300)
    numbered = fit_profile(posteriors(labels, 1), labels, kind="probabilities")
    adapter = PosteriorAdapter(numbered, Tumbling(count=20))
    for row in posteriors(np.full(60, 2), 1):
        adapter.learn_one(dict(enumerate(row.tolist())))
    found = adapter.transform_one({2: 0.5, 0: 0.5})
    assert list(found) == [2, 0]
    assert found[2] > 0.5
    assert sum(found.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_the_adapter_takes_frames(make: Any) -> None:
    rows = draw(700, SHIFTED, 1)
    one, many = PosteriorAdapter(profile()), PosteriorAdapter(profile())
    for row in rows:
        one.learn_one(by_name(row))
    backwards = {name: rows[:, j] for j, name in reversed(list(enumerate(NAMES)))}
    many.learn_many(make(backwards))
    assert many.prior == one.prior
    found = many.transform_many(make(backwards))
    assert isinstance(found, make)
    assert list(found.columns) == list(backwards)
    wanted = [one.transform_one(by_name(row)) for row in rows]
    for name in NAMES:
        np.testing.assert_allclose(np.asarray(found[name]), [line[name] for line in wanted])
    with pytest.raises(InputError, match="class 'dog' is unknown"):
        many.learn_many(make({"dog": [1.0]}))


def test_the_adapter_is_a_step_of_a_pipeline_over_posteriors() -> None:
    pipeline = compose.Select(*NAMES) | PosteriorAdapter(profile())
    for row in draw(100, SHIFTED, 1):
        pipeline.learn_one({**by_name(row), "id": 7})
    assert set(pipeline.transform_one({**by_name(row), "id": 7})) == set(NAMES)


def test_the_tracker_says_what_adaptive_memory_says() -> None:
    rows = draw(2030, SHIFTED, 1)
    one, many = PriorTracker(profile(), estimator=EM()), PriorTracker(profile(), estimator="EM")
    reference = Tracker(profile(), EM())
    assert one.get() == dict(zip(NAMES, profile().soft_prior.tolist(), strict=True))
    reference.follow(profile().rows(rows))
    for row in rows:
        one.update(row)
    many.update_many(rows[:777])
    many.update_many(pd.DataFrame(rows[777:], columns=NAMES))
    assert list(one.get().values()) == reference.prior.tolist()
    assert many.get() == one.get()
    assert isinstance(one, stats.base.Statistic)


@pytest.mark.parametrize("count", [40, 300])
def test_the_tracker_takes_windows(count: int) -> None:
    rows = draw(730, SHIFTED, 1)
    tracker = PriorTracker(profile(), Tumbling(count=count), "EM")
    assert tracker.get() == dict(zip(NAMES, profile().soft_prior.tolist(), strict=True))
    monitor = Monitor(profile(), Tumbling(count=count), "EM", level=None, check=False)
    for i, row in enumerate(rows):
        tracker.update(row)
        monitor.update(row)
        if i % 97 == 0:
            assert list(tracker.get().values()) == monitor.estimate().prior.tolist()  # type: ignore[union-attr]


def test_reverting_leaves_what_was_not_reverted() -> None:
    rows = draw(300, SHIFTED, 1)
    tracker = PriorTracker(profile(), "all", "EM")
    for row in rows:
        tracker.update(row)
    kept = np.ones(300, bool)
    for i in (0, 1, 299, 100, 7):
        tracker.revert(rows[i])
        kept[i] = False
    wanted = EM().estimate(profile().rows(rows[kept]), profile()).prior
    np.testing.assert_allclose(list(tracker.get().values()), wanted)
    with pytest.raises(InputError, match="revert: this posterior is not among the 295"):
        tracker.revert(rows[100])


def test_rolling_is_the_mix_of_the_last_events() -> None:
    rows = draw(900, SHIFTED, 1)
    rolling: Any = utils.Rolling(
        PriorTracker, window_size=200, profile=profile(), window="all", estimator="EM"
    )
    for i, row in enumerate(rows):
        rolling.update(by_name(row))
        if i % 130 == 0:
            last = profile().rows(rows[max(0, i - 199) : i + 1])
            wanted = EM().estimate(last, profile()).prior
            np.testing.assert_allclose(list(rolling.get().values()), wanted)


def test_windows_that_forget_on_their_own_do_not_revert() -> None:
    for window in (None, Tumbling(count=100)):
        tracker = PriorTracker(profile(), window)
        tracker.update([0.8, 0.1, 0.1])
        with pytest.raises(InputError, match='make the tracker with window="all"'):
            tracker.revert([0.8, 0.1, 0.1])
    with pytest.raises(InputError, match="window: 'some' is unknown"):
        PriorTracker(profile(), "some")


def test_the_detector_finds_a_change_once_and_says_which_classes_moved() -> None:
    detector = LabelShiftDetector(profile())
    assert isinstance(detector, base.DriftAndWarningDetector | base.DriftDetector)
    assert isinstance(drift.ADWIN(), base.DriftDetector)
    found, warned = [], 0
    for i, row in enumerate(np.concatenate([draw(1000, EVEN, 1), draw(1000, SHIFTED, 2)])):
        detector.update(by_name(row))
        warned += detector.warning_detected
        if detector.drift_detected:
            found.append(i)
            assert detector.moved["cat"] == "up"
            assert detector.changed_at is not None
            assert 900 <= detector.changed_at <= 1050
    assert len(found) == 1
    assert 1000 < found[0] <= 1150
    assert warned < 200
    detector._reset()
    assert not detector.drift_detected
    assert detector.changed_at is None


def test_a_second_change_is_found_too() -> None:
    detector = LabelShiftDetector(profile(), estimator="EM")
    parts = [draw(500, EVEN, 1), draw(3000, SHIFTED, 2), draw(1500, (0.8, 0.1, 0.1), 3)]
    found = []
    for i, row in enumerate(np.concatenate(parts)):
        detector.update(row)
        if detector.drift_detected:
            found.append(i)
    assert len(found) == 2
    assert 3500 < found[1] < 3800


def test_false_alarms_are_as_rare_as_promised() -> None:
    """Of streams without a change at most one in five may raise an alarm of level 0.2."""
    level, streams, n = 0.2, 120, 1000
    raised = 0
    rng = np.random.default_rng(0)
    for seed in range(streams):
        # A validation set of its own for each, as the promise is over these as well.
        labels = rng.integers(3, size=300)
        source = fit_fast(posteriors(labels, 10_000 + seed), labels)
        detector = LabelShiftDetector(source, alarm=level, estimator="EM")
        for row in draw(n, EVEN, 20_000 + 2 * seed).tolist():
            detector.update(row)
            if detector.drift_detected:
                raised += 1
                break
    assert raised <= binom.ppf(0.999, streams, level)


@pytest.mark.slow
def test_alarms_and_warnings_keep_the_promise_of_the_default() -> None:
    """Streams of 10,000 events, each with a validation set of its own, at the default level."""
    streams, n = 300, 10_000
    raised = warned = 0
    rng = np.random.default_rng(1)
    for seed in range(streams):
        labels = rng.integers(3, size=300)
        source = fit_fast(posteriors(labels, 50_000 + seed), labels)
        detector = LabelShiftDetector(source, estimator="EM")
        drift_seen = warning_seen = False
        for row in draw(n, EVEN, 70_000 + 2 * seed).tolist():
            detector.update(row)
            drift_seen |= detector.drift_detected
            warning_seen |= detector.warning_detected
        raised += drift_seen
        warned += warning_seen
    most = binom.ppf(0.999, streams, 0.05)
    assert raised <= most
    assert warned <= most


def fit_fast(scores: Any, labels: Any) -> Any:
    """A profile without replays, which no detector by EM reads."""
    from stream_leip.calibration import as_logits
    from stream_leip.fitting import Labelled, fit_source

    logits = as_logits(scores, "probabilities")
    return fit_source(Labelled(scores, logits, labels, tuple(NAMES), "probabilities"), "BCTS", 0)


def test_a_level_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"alarm: 1\.0; use a share"):
        LabelShiftDetector(profile(), alarm=1.0)


def test_without_river_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    from stream_leip_connectors import extras

    monkeypatch.setitem(sys.modules, "river", None)
    with pytest.raises(InputError, match=r"pip install 'stream-leip\[river\]'"):
        extras.river()
    assert importlib.util.find_spec("stream_leip_connectors.river") is not None
