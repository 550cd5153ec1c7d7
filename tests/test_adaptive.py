"""Adaptive memory: the invariants of streaming, and the recipe's arithmetic."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import (
    BBSE,
    EM,
    LEIP,
    Adaptive,
    Auto,
    InputError,
    KeyedMonitor,
    Monitor,
    SnapshotError,
    Tumbling,
    Update,
    fit_profile,
)
from stream_leip._kernels import mixture as mixtures
from stream_leip._kernels.likelihood import maximise
from stream_leip._kernels.wager import no_wager
from stream_leip.tracker import Tracker
from tests.data import load, validation
from tests.references_adaptive import experts, lazy_bank, track
from tests.strategies import make_profile

PROFILE = make_profile(np.array([0.2, 0.3, 0.5]))
SETTINGS: dict[str, dict[str, Any]] = {
    "EM": {"estimator": "EM"},
    "LEIP": {"estimator": "LEIP"},
    "auto": {},
    "top_k": {"top_k": 2},
    "capped": {"max_rows": 120},
    "no alarm": {"alarm": None, "check": False, "level": None},
}
every_setting = pytest.mark.parametrize("chosen", SETTINGS.values(), ids=list(SETTINGS))

Stream = tuple[NDArray[np.float64], NDArray[np.float64]]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Scores whose mix jumps once, some bad, and their times."""
    n = draw(st.integers(1, 700))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    at = int(n * draw(st.floats(0, 1)))
    labels = np.concatenate(
        [rng.choice(3, at, p=[0.2, 0.3, 0.5]), rng.choice(3, n - at, p=[0.8, 0.15, 0.05])]
    )
    raw = rng.gamma(0.5, size=(n, 3)) + 4.0 * np.eye(3)[labels] * rng.random((n, 1))
    scores = raw / raw.sum(axis=1, keepdims=True)
    if draw(st.booleans()):
        scores[rng.random(n) < 0.05] = np.nan
    return scores, 1e9 + np.cumsum(rng.exponential(1.0, n))


def plain(updates: list[Update]) -> list[dict[str, Any]]:
    return [update.to_dict() for update in updates]


def fresh(chosen: dict[str, Any]) -> Monitor:
    return Monitor(PROFILE, Adaptive(every=100), on_bad="skip", **chosen)


@every_setting
@given(stream=streams(), data=st.data())
@settings(max_examples=25)
def test_the_split_into_batches_does_not_matter(
    chosen: dict[str, Any], stream: Stream, data: st.DataObject
) -> None:
    scores, times = stream
    expected = fresh(chosen).update_many(scores, times)
    monitor, found, begin = fresh(chosen), [], 0
    while begin < len(scores):
        size = data.draw(st.integers(1, 300))
        if size < 20:
            for i in range(begin, min(begin + size, len(scores))):
                found += monitor.update(scores[i], float(times[i]))
        else:
            found += monitor.update_many(scores[begin : begin + size], times[begin : begin + size])
        begin += size
        if data.draw(st.booleans()):
            monitor.estimate()  # nothing changes by it
    assert plain(found) == plain(expected)


@every_setting
@given(stream=streams(), cut=st.floats(0, 1))
@settings(max_examples=15)
def test_restore_equals_never_stopped(chosen: dict[str, Any], stream: Stream, cut: float) -> None:
    scores, times = stream
    at = int(cut * len(scores))
    whole = fresh(chosen)
    expected = whole.update_many(scores, times)
    monitor = fresh(chosen)
    found = monitor.update_many(scores[:at], times[:at])
    state = monitor.snapshot()
    restored = Monitor.restore(state, PROFILE)
    assert restored.snapshot() == state
    found += restored.update_many(scores[at:], times[at:])
    assert plain(found) == plain(expected)
    assert restored.snapshot() == whole.snapshot()
    assert plain([restored.estimate()]) == plain([whole.estimate()])
    np.testing.assert_array_equal(restored.adapting_prior, whole.adapting_prior)


@given(stream=streams(), seed=st.integers(0, 1000))
@settings(max_examples=15)
def test_keyed_equals_one_monitor_a_key(stream: Stream, seed: int) -> None:
    scores, times = stream
    scores = np.where(np.isnan(scores), 1 / 3, scores)
    keys = np.random.default_rng(seed).choice(["a", "b", "c"], len(scores))
    keyed = KeyedMonitor(PROFILE, Adaptive(every=50))
    found = keyed.update_many(keys.tolist(), scores, times)
    for key in set(keys.tolist()):
        alone = Monitor(PROFILE, Adaptive(every=50))
        expected = plain(alone.update_many(scores[keys == key], times[keys == key]))
        assert plain([u for u in found if u.key == key]) == [{**e, "key": key} for e in expected]
        assert keyed.monitor(key).snapshot() == alone.snapshot()


@pytest.mark.parametrize("estimator", [EM(), LEIP(), Auto()], ids=str)
def test_ten_thousand_events_after_a_restore_nothing_tells(estimator: Any) -> None:
    profile = fit_profile(*validation("mnist_mlp", 1000))
    logits = load("mnist_mlp")["test_logits"][:13_337]
    monitor = Monitor(profile, estimator=estimator)
    monitor.update_many(logits[:3337])
    restored = Monitor.restore(monitor.snapshot(), profile)
    ours = restored.update_many(logits[3337:])
    assert plain(ours) == plain(monitor.update_many(logits[3337:]))
    assert restored.snapshot() == monitor.snapshot()
    assert len(ours) >= 10


def test_any_flipped_byte_of_a_snapshot_is_detected() -> None:
    monitor = Monitor(PROFILE)
    monitor.update_many(np.random.default_rng(0).dirichlet(np.ones(3), 70))
    state = monitor.snapshot()
    for place in range(0, len(state), 97):
        spoilt = bytearray(state)
        spoilt[place] ^= 0x10
        with pytest.raises(SnapshotError):
            Monitor.restore(bytes(spoilt), PROFILE)


def drawn(name: str, labels: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Test logits of a data set with these labels."""
    data = load(name)
    pools = [np.flatnonzero(data["test_labels"] == c) for c in range(10)]
    found: NDArray[Any] = data["test_logits"][[rng.choice(pools[c]) for c in labels]]
    return found


def moving(n: int, rng: np.random.Generator) -> NDArray[Any]:
    """Labels whose mix drifts, then jumps."""
    first, second = rng.dirichlet(np.ones(10), 2)
    share = np.linspace(0, 1, n)[:, None]
    mix = np.where(share < 0.6, (1 - share) * first + share * second, first[::-1])
    labels: NDArray[Any] = (mix.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    return labels


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
def test_the_mixture_equals_the_recipe_on_the_same_estimates(name: str) -> None:
    rng = np.random.default_rng(1)
    profile = fit_profile(*validation(name, 1000))
    rows = profile.rows(drawn(name, moving(4000, rng), rng))
    source = profile.soft_prior
    bank = lazy_bank(rows, source)
    expected = track(rows, experts(bank, source), source)
    state = mixtures.fresh(source)
    for pane, priors in enumerate(bank):
        part = rows[50 * pane : 50 * pane + 50]
        mixtures.take(state, no_wager(), part, source)
        sizes = np.minimum(50.0 * 2.0 ** np.arange(10), 50.0 * (pane + 1))
        mixtures.end_pane(state, priors, sizes, source)
        np.testing.assert_allclose(state.estimate, expected[pane], atol=1e-9)


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
def test_end_to_end_it_is_the_recipe(name: str) -> None:
    rng = np.random.default_rng(2)
    profile = fit_profile(*validation(name, 1000))
    logits = drawn(name, moving(6000, rng), rng)
    rows = profile.rows(logits)
    expected = track(
        rows, experts(lazy_bank(rows, profile.soft_prior), profile.soft_prior), profile.soft_prior
    )
    updates = Monitor(profile, Adaptive(every=50), "EM", alarm=None).update_many(logits)
    found = np.array([update.prior for update in updates])
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("by_leip", [False, True])
def test_rungs_are_the_batch_estimates_of_their_rows(by_leip: bool) -> None:
    rng = np.random.default_rng(3)
    profile = fit_profile(*validation("cifar10_resnet20", 2000))
    rows = profile.rows(drawn("cifar10_resnet20", moving(9000, rng), rng))
    source = profile.soft_prior
    tracker = Tracker(profile, LEIP() if by_leip else EM())
    for pane in range(180):
        tracker.take(rows[50 * pane : 50 * pane + 50])
    ladder = tracker._ladder
    for k in range(mixtures.RUNGS):
        end = int(ladder.renewed[k])
        n = min(50 << k, end)
        part = rows[end - n : end]
        if by_leip:
            np.testing.assert_array_equal(ladder.priors[k], LEIP().estimate(part, profile).prior)
        else:
            exact, _, _ = maximise(
                part, np.empty((0, 0), np.uint16), source, np.empty(0), source, source, 1e-10, 5000
            )
            # Against a deviation of about 0.3 / √n for a share of a tenth.
            np.testing.assert_allclose(ladder.priors[k], exact, atol=0.02 / np.sqrt(n))


def test_memory_is_long_at_rest_and_short_after_a_change() -> None:
    rng = np.random.default_rng(4)
    profile = fit_profile(*validation("mnist_mlp", 2000))
    at_rest = drawn("mnist_mlp", rng.integers(10, size=10_000), rng)
    after = drawn("mnist_mlp", rng.choice(10, 500, p=[0.55] + [0.05] * 9), rng)
    monitor = Monitor(profile, Adaptive(every=500))
    for update in monitor.update_many(at_rest):
        assert update.alarm is not None
        assert not update.alarm["raised"]
    assert (update.memory or 0) > 3000
    updates = monitor.update_many(after)
    raised = next(u for u in updates if u.alarm is not None and u.alarm["raised"])
    assert raised.last is not None
    assert raised.last < 10_200  # at once, and not when the next update is due
    assert raised.changed_at in (9950, 10_000, 10_050)
    assert raised.alarm is not None
    assert raised.alarm["classes"][0]["class"] == "0"
    assert raised.alarm["classes"][0]["direction"] == "up"
    last = updates[-1]
    assert last.memory is not None
    assert last.memory < 1000
    assert last.low is not None
    assert last.high is not None
    assert last.low[0] < 0.55 < last.high[0]


def test_the_null_moves_after_a_change_and_can_be_reset() -> None:
    rng = np.random.default_rng(5)
    profile = fit_profile(*validation("mnist_mlp", 2000))
    away = drawn("mnist_mlp", rng.choice(10, 4000, p=[0.55] + [0.05] * 9), rng)
    home = drawn("mnist_mlp", rng.integers(10, size=1000), rng)
    monitor = Monitor(profile)
    states = [u.alarm for u in monitor.update_many(away) if u.alarm is not None]
    assert states[0]["raised"]
    assert states[0]["since"] <= 200
    assert not states[-1]["raised"]
    assert states[-1]["nulls"] == 3  # of a thousand rows of the new mix, then of two
    assert states[-1]["null"][0] == pytest.approx(0.55, abs=0.05)
    again = [u.alarm for u in monitor.update_many(home) if u.alarm is not None]
    assert any(alarm["raised"] for alarm in again)
    monitor.reset_alarm()
    alarm = monitor.estimate().alarm
    assert alarm is not None
    assert not alarm["raised"]
    np.testing.assert_array_equal(alarm["null"], profile.soft_prior)
    with pytest.raises(InputError, match="alarm: this monitor has none"):
        Monitor(profile, alarm=None).reset_alarm()


def test_other_windows_have_an_alarm_when_asked() -> None:
    rng = np.random.default_rng(6)
    profile = fit_profile(*validation("mnist_mlp", 2000))
    logits = drawn("mnist_mlp", rng.choice(10, 3000, p=[0.55] + [0.05] * 9), rng)
    tumbling = Monitor(profile, Tumbling(count=500), alarm=0.05)
    found = [u.alarm for u in tumbling.update_many(logits)]
    adaptive = Monitor(profile, Adaptive(every=500))
    beside = {u.last: u.alarm for u in adaptive.update_many(logits)}
    assert found == [beside[499 + 500 * k] for k in range(6)]
    one_by_one = Monitor(profile, Tumbling(count=500), alarm=0.05)
    updates = [u for line in logits for u in one_by_one.update(line)]
    assert [u.alarm for u in updates] == found
    assert Monitor(profile, Tumbling(count=500)).update_many(logits)[0].alarm is None


def test_estimate_now_is_the_newest_update_and_takes_the_open_pane_in() -> None:
    rng = np.random.default_rng(7)
    scores = rng.dirichlet(np.full(3, 0.4), 530)
    monitor = Monitor(PROFILE, Adaptive(every=100), check=False)
    assert monitor.estimate().n == 0
    updates = monitor.update_many(scores[:500])
    sequence = len(updates)
    assert {**monitor.estimate().to_dict(), "sequence": sequence - 1} == updates[-1].to_dict()
    monitor.update_many(scores[500:])
    now = monitor.estimate()
    assert now.last == 529
    assert now.prior is not None
    assert now.prior.sum() == pytest.approx(1)


def test_times_are_those_of_the_rows_in_scope() -> None:
    times = 1e9 + np.arange(1000.0)
    monitor = Monitor(PROFILE, Adaptive(every=500))
    scores = np.random.default_rng(0).dirichlet(np.full(3, 0.4), 1000)
    for update in monitor.update_many(scores, times):
        assert update.first is not None
        assert update.start == 1e9 + update.first // 50 * 50
        assert update.end == 1e9 + update.last  # type: ignore[operator]


def test_memory_of_the_process_does_not_grow() -> None:
    rng = np.random.default_rng(8)
    scores = rng.dirichlet(np.full(3, 0.4), 50_000)
    monitor = Monitor(PROFILE, Adaptive(every=5000))
    sizes = []
    for _ in range(4):
        monitor.update_many(scores)
        sizes.append(len(monitor.snapshot()))
    assert max(sizes[1:]) <= 1.3 * min(sizes[1:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"window": Adaptive(), "max_rows": 20}, "max_rows: 20; adaptive memory needs 50"),
        ({"estimator": BBSE()}, "estimator: BBSE.* has no place on the ladder"),
        ({"alarm": 1.5}, "alarm: 1.5; use a share"),
        ({"alarm": "loud"}, "alarm: 'loud'; use a share"),
        ({"alarm": np.array([0.05, 0.1])}, "alarm: array.*; use a share"),
        ({"check": "no"}, "check: 'no'; use True or False"),
        ({"on_late": 3}, "on_late: 3 cannot be called"),
        ({"level": 95}, "level: 95; use a number between 0 and 1"),
        ({"max_rows": "5"}, "max_rows: '5'; use a whole number"),
        ({"max_rows": float("nan")}, "max_rows: nan; use a whole number"),
        ({"top_k": 2.5}, "top_k: 2.5; use a whole number"),
        ({"window": Adaptive}, "window: .* is no window"),
    ],
)
def test_wrong_settings_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Monitor(PROFILE, **arguments)


@pytest.mark.parametrize("every", [0, 49, 60, -50, 2.5, True, None])
def test_updates_come_every_so_many_panes(every: Any) -> None:
    with pytest.raises(InputError, match=r"every: .*; use a multiple of 50"):
        Adaptive(every=every)


def test_sparse_rows_that_keep_all_entries_are_the_joint_unit_of_whole_ones() -> None:
    rng = np.random.default_rng(9)
    scores = rng.dirichlet(np.full(3, 0.4), 2000)
    rows = PROFILE.rows(scores)
    source = PROFILE.soft_prior
    tracker = Tracker(PROFILE, EM(), top_k=3)
    state = mixtures.fresh(source, joint_only=True)
    for pane in range(40):
        part = rows[50 * pane : 50 * pane + 50]
        tracker.take(part)
        expected = joint_alone(state, part, tracker._ladder, source)
        np.testing.assert_allclose(tracker.prior, expected, atol=1e-6)


def joint_alone(state: Any, rows: NDArray[Any], ladder: Any, source: NDArray[Any]) -> NDArray[Any]:
    """The joint unit on whole rows, by the recipe's steps in plain numpy."""
    first = state.panes[0] == 0
    if not first:
        mixtures.begin_pane(state, source)
    x = rows.astype(np.float64) / source
    for block in range(5):
        if not first:
            mixtures.restart(state, block)
        factors = np.ones((1, mixtures.EXPERTS))
        mixed = np.empty(3)
        mixtures.predict(state, source, np.empty(3), np.empty(3), mixed, np.empty(3))
        for event in x[10 * block : 10 * block + 10]:
            factors[0, :20] *= event @ state.experts / (event @ mixed)
            for k in range(block + 2):
                value = event @ state.counts[:, k]
                factors[0, 20 + k] *= value / state.seen[k] / (event @ mixed)
                state.counts[:, k] *= 1.0 + event / value
                state.seen[k] += 1.0
        mixtures.reweigh(state, factors)
    mixtures.end_pane(state, ladder.priors, ladder.sizes, source)
    found: NDArray[Any] = state.estimate.copy()
    return found


def test_a_stream_that_becomes_one_class_is_followed() -> None:
    rng = np.random.default_rng(10)
    profile = fit_profile(*validation("mnist_mlp", 2000))
    home = drawn("mnist_mlp", rng.integers(10, size=3000), rng)
    one = drawn("mnist_mlp", np.full(6000, 3), rng)
    updates = Monitor(profile).update_many(np.concatenate([home, one, home]))
    states = [u.alarm for u in updates if u.alarm is not None]
    assert max(alarm["nulls"] for alarm in states) >= 2
    assert sum(1 for a, b in pairwise(states) if b["raised"] and not a["raised"]) == 2
    assert min(states[-1]["null"]) > 0


def test_labels_for_scores_keep_the_alarm_and_the_check_in_order() -> None:
    rng = np.random.default_rng(11)
    known = rng.integers(3, size=900)
    told = np.where(rng.random(900) < 0.1, rng.integers(3, size=900), known)
    profile = fit_profile(np.eye(3)[told], known, kind="probabilities")
    labels = np.concatenate([rng.integers(3, size=3000), np.full(6000, 1), np.full(6000, 2)])
    told = np.where(rng.random(15_000) < 0.1, rng.integers(3, size=15_000), labels)
    updates = Monitor(profile).update_many(np.eye(3)[told])
    for update in updates:
        json.dumps(update.to_dict(), allow_nan=False)
    raised = [u.last for u in updates if u.alarm is not None and u.alarm["raised"]]
    assert any(last is not None and 9000 <= last < 9500 for last in raised)
    assert not any(u.check is not None and u.check["flagged"] for u in updates[:3])


@pytest.mark.parametrize("top_k", [5, 60])
def test_the_check_of_cut_rows_says_what_that_of_whole_ones_does(top_k: int) -> None:
    rng = np.random.default_rng(12)

    def draw(labels: NDArray[Any]) -> NDArray[Any]:
        logits: NDArray[Any] = 8.0 * np.eye(60)[labels] + rng.normal(size=(len(labels), 60))
        return logits

    known = np.concatenate([np.arange(60).repeat(5), rng.integers(60, size=1200)])
    profile = fit_profile(draw(known), known)
    (update,) = Monitor(profile, Adaptive(every=2000), top_k=top_k, alarm=None).update_many(
        draw(rng.integers(60, size=2000))
    )
    assert update.check is not None
    assert update.check["p"] > 1e-3


def test_a_short_ladder_finds_one_change_after_the_other() -> None:
    rng = np.random.default_rng(13)
    profile = fit_profile(*validation("mnist_mlp", 2000))
    mixes = ([0.1] * 10, [0.55] + [0.05] * 9, [0.05] * 9 + [0.55], [0.1] * 10)
    logits = [drawn("mnist_mlp", rng.choice(10, 3000, p=mix), rng) for mix in mixes]
    updates = Monitor(profile, max_rows=400).update_many(np.concatenate(logits))
    states = [u.alarm for u in updates if u.alarm is not None]
    assert sum(1 for a, b in pairwise(states) if b["raised"] and not a["raised"]) == 3
    assert updates[-1].changed_at is not None
    assert abs(updates[-1].changed_at - 9000) <= 100  # the last change, though it has settled


def test_the_tracker_beside_a_window_sees_all_events_when_a_callback_fails() -> None:
    scores = np.random.default_rng(14).dirichlet(np.full(3, 0.4), 1000)
    times = 1e9 + np.arange(1000.0)
    times[900] -= 500.0

    def fail(*late: object) -> None:
        raise RuntimeError("no room")

    monitor = Monitor(PROFILE, Tumbling(seconds=100), alarm=0.05, on_late=fail)
    with pytest.raises(RuntimeError, match="no room"):
        monitor.update_many(scores, times)
    assert monitor._tracker is not None
    assert monitor._tracker.events == monitor.events == 1000


def test_the_check_is_there_before_the_first_update() -> None:
    monitor = Monitor(PROFILE)
    monitor.update_many(np.random.default_rng(15).dirichlet(np.full(3, 0.4), 120))
    assert monitor.estimate().check is not None


def test_keys_have_one_alarm_each_and_snapshots_of_other_settings_are_refused() -> None:
    keyed = KeyedMonitor(PROFILE)
    keyed.update_many(["a"] * 60, np.random.default_rng(16).dirichlet(np.full(3, 0.4), 60))
    keyed.reset_alarm("a")
    taken = keyed.monitor("a").snapshot()
    other = KeyedMonitor(PROFILE, level=None)
    with pytest.raises(SnapshotError, match=r"its level is 0.95, but all keys here have None"):
        other.adopt("a", taken)
    assert "a" not in other
