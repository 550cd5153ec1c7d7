"""The classifier in River's hands: evaluation, copies, bad input, and what it promises."""

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
from river import (
    base,
    compose,
    evaluate,
    linear_model,
    metrics,
    naive_bayes,
    preprocessing,
    tree,
)
from river.datasets import ImageSegments
from stream_leip_connectors.river import LabelShiftClassifier

from stream_leip import Sliding, Tumbling, Update
from stream_leip.adapt import adapt
from tests.river.events import drifting


def trained(n: int = 3000, **settings: Any) -> Any:
    """Labels and observations of the whole stream; ready, and past some whole fits."""
    settings = {"labelled": 400, "refit_every": 40, **settings}
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), **settings)
    for x, y in drifting(n):
        model.observe_one(x)
        model.learn_one(x, y)
    return model


def test_until_there_are_enough_labels_it_is_the_bare_model() -> None:
    bare, model = naive_bayes.GaussianNB(), LabelShiftClassifier(naive_bayes.GaussianNB())
    for x, y in list(drifting(4000))[:999]:
        assert model.predict_proba_one(x) == bare.predict_proba_one(x)
        model.observe_one(x)
        bare.learn_one(x, y)
        model.learn_one(x, y)
    assert not model.ready
    assert model.prior == {}
    assert model.last_update is None
    assert not model.alarm
    assert model.trust == 0.0
    for x, y in list(drifting(4000))[999:1003]:
        model.learn_one(x, y)  # of each class the first label is no pair: the model had no score
    assert model.ready


def test_the_inner_model_learns_as_it_would_alone() -> None:
    bare, model = (
        tree.HoeffdingTreeClassifier(),
        LabelShiftClassifier(
            tree.HoeffdingTreeClassifier(), labelled=200, refit_every=20, observe_on_predict=True
        ),
    )
    for x, y in drifting(1000):
        model.predict_one(x)
        bare.learn_one(x, y)
        model.learn_one(x, y)
        assert model.model.predict_proba_one(x) == bare.predict_proba_one(x)


def test_it_follows_a_shift_that_labels_do_not_show_yet() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=1000, refit_every=100)
    events = list(drifting(6000))
    for x, y in events[:3000]:
        model.observe_one(x)
        model.learn_one(x, y)
    assert model.trust > 0.9
    before = model.prior
    hits = {"bare": 0, "adapted": 0, "alarm": 0}
    for x, y in events[3000:]:
        hits["bare"] += model.model.predict_one(x) == y
        hits["adapted"] += model.predict_one(x) == y
        model.observe_one(x)
        hits["alarm"] += model.alarm
    assert hits["adapted"] > hits["bare"] + 150
    assert hits["alarm"] > 500
    assert before["c"] == pytest.approx(1 / 3, abs=0.06)
    assert model.prior["c"] == pytest.approx(0.8, abs=0.06)
    update = model.last_update
    assert isinstance(update, Update)
    assert update.last is not None
    assert update.changed_at is not None
    assert 5000 < update.last < 6000
    assert 2800 <= update.changed_at <= 3200


@pytest.mark.parametrize("delay", [None, 300])
def test_progressive_validation_takes_it(delay: int | None) -> None:
    events = list(drifting(3000))
    make: Any = naive_bayes.GaussianNB
    model = LabelShiftClassifier(make(), None, "EM", 600, 100, observe_on_predict=True)
    ours: Any = evaluate.progressive_val_score(events, model, metrics.Accuracy(), delay=delay)
    bare = evaluate.progressive_val_score(events, make(), metrics.Accuracy(), delay=delay)
    assert ours.get() > bare.get()
    by_loss = LabelShiftClassifier(make(), Sliding(count=400), observe_on_predict=True)
    steps = list(
        evaluate.iter_progressive_val_score(
            events, by_loss, metrics.LogLoss(), delay=delay, step=1000, measure_memory=True
        )
    )
    assert [each["Step"] for each in steps] == [1000, 2000, 3000]


def test_delayed_labels_give_what_a_plain_loop_gives() -> None:
    events = list(drifting(1500))
    one, two = (
        LabelShiftClassifier(
            naive_bayes.GaussianNB(), labelled=200, refit_every=50, observe_on_predict=True
        )
        for _ in range(2)
    )
    metric = evaluate.progressive_val_score(events, one, metrics.LogLoss(), delay=100)
    wanted = metrics.LogLoss()
    given: list[Any] = []
    for i in range(len(events) + 100):
        if i >= 100:
            if given[i - 100]:
                wanted.update(events[i - 100][1], given[i - 100])
            two.learn_one(*events[i - 100])
        if i < len(events):
            given.append(two.predict_proba_one(events[i][0]))
    assert metric.get() == pytest.approx(wanted.get())


def test_predictions_change_nothing_unless_asked_to() -> None:
    model = trained()
    before = pickle.dumps(model)
    x = {"u": 0.3, "v": 0.1}
    first = [model.predict_proba_one(x), model.predict_one(x)]
    for _ in range(120):
        model.predict_proba_one(x)
    assert pickle.dumps(model) == before
    assert [model.predict_proba_one(x), model.predict_one(x)] == first
    model = trained(observe_on_predict=True)
    for _ in range(120):
        model.predict_proba_one(x)
    assert model.predict_proba_one(x) != first[0]


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("window", [None, Tumbling(count=130)])
def test_a_copy_goes_on_as_the_model_does(duplicate: Any, window: Any) -> None:
    model = trained(1500, window=window, observe_on_predict=True)
    other = duplicate(model)
    assert other is not model
    for x, y in drifting(1200, seed=5):
        # Sums of numpy depend on how arrays lie in memory, in their last digit.
        wanted = pytest.approx(model.predict_proba_one(x), rel=1e-9)
        assert other.predict_proba_one(x) == wanted
        model.learn_one(x, y)
        other.learn_one(x, y)
    assert other.prior == pytest.approx(model.prior)
    assert model.last_update is not None
    for name in ("sequence", "first", "last", "n", "changed_at"):
        assert getattr(other.last_update, name) == getattr(model.last_update, name)


def test_a_clone_has_the_settings_and_nothing_else() -> None:
    model = trained(labelled=300, window=Tumbling(count=100), estimator="LEIP", seed=4)
    clone = model.clone()
    assert repr(clone) == repr(model)
    assert not clone.ready
    assert model.clone({"labelled": 500}).labelled == 500
    whole = model.clone(include_attributes=True)
    assert whole.ready  # the state is copied, and the inner model, a parameter, is new
    assert whole.prior == model.prior


def test_what_it_shows_is_readable() -> None:
    model = LabelShiftClassifier(
        preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
        Tumbling(count=500),
    )
    assert "GaussianNB" in repr(model)
    assert "count=500" in repr(model)
    assert "array" not in repr(trained(800))
    assert str(model).startswith("LabelShiftClassifier(")


def test_it_is_multiclass_where_the_model_is() -> None:
    assert LabelShiftClassifier(naive_bayes.GaussianNB())._multiclass
    assert not LabelShiftClassifier(linear_model.LogisticRegression())._multiclass
    assert isinstance(LabelShiftClassifier(naive_bayes.GaussianNB()), base.Classifier)
    assert isinstance(LabelShiftClassifier(naive_bayes.GaussianNB()), base.Wrapper)


def test_pipelines_work_both_ways_round() -> None:
    settings: dict[str, Any] = {"labelled": 200, "refit_every": 20, "observe_on_predict": True}
    inside = compose.Pipeline(
        preprocessing.StandardScaler(), LabelShiftClassifier(naive_bayes.GaussianNB(), **settings)
    )
    around: Any = LabelShiftClassifier(
        preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
        **settings,
    )
    found = []
    for model in (inside, around):
        for x, y in drifting(800):
            model.predict_one(x)
            model.learn_one(x, y)
        found.append(model.predict_proba_one({"u": 1.0, "v": 0.2}))
    assert inside["LabelShiftClassifier"].ready
    assert around.ready
    assert found[0].keys() == found[1].keys() == {"a", "b", "c"}


def test_classes_may_appear_over_time() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=300, refit_every=30)
    rng = np.random.default_rng(0)
    known: list[int] = []
    for i in range(1500):
        y = int(rng.integers(1 + min(4, i // 300)))
        x = {"u": rng.normal(y), "v": rng.normal(-y)}
        model.observe_one(x)
        scores = model.predict_proba_one(x)
        if scores:
            assert math.isclose(sum(scores.values()), 1.0)
            assert min(scores.values()) >= 0.0
        model.learn_one(x, y)
        known.append(len(model.prior))
    assert set(model.prior) == set(range(5))
    assert sorted(set(known)) == [0, 2, 3, 4, 5]


def test_memory_begins_anew_with_a_new_class() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=100, refit_every=10)
    for part, late in enumerate([(1, 1, 0), (1, 1, 1)]):
        for x, y in list(drifting(1000, late, seed=part))[500:]:
            model.observe_one(x)
            model.learn_one(x, y)
            if model._watch is not None:
                recent = model._watch.recent()
                assert recent.shape[1] == len(model.prior)
                np.testing.assert_allclose(recent.sum(axis=1), 1.0, atol=0.6)
    assert len(model.prior) == 3
    assert model.last_update is not None
    assert model.last_update.last is not None
    assert 900 <= model.last_update.last < 1000


@pytest.mark.parametrize("estimator", ["auto", "LEIP", "EM"])
def test_few_labels_are_enough_not_to_fail(estimator: str) -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), None, estimator, 10, 5)
    for x, y in drifting(300):
        model.observe_one(x)
        scores = model.predict_proba_one(x)
        assert not scores or math.isclose(sum(scores.values()), 1.0)
        model.learn_one(x, y)
    assert model.ready


def test_a_class_that_stays_away_is_not_forgotten() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=200, refit_every=20)
    for late in ((1, 1, 1), (1, 1, 0)):
        for x, y in list(drifting(1600, late))[800:]:
            model.observe_one(x)
            model.learn_one(x, y)
    assert set(model.prior) == {"a", "b", "c"}
    assert model.profile is not None
    assert 0.0 < model.profile.hard_prior[model.profile.classes.index("c")] <= 0.05


def test_labels_that_read_alike_are_told_apart() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=100, refit_every=10)
    rng = np.random.default_rng(0)
    for _ in range(300):
        y = [1, "1"][rng.integers(2)]
        model.learn_one({"u": rng.normal(3.0 * (y == 1))}, y)
    assert set(model.prior) == {1, "1"}


def test_memory_is_bounded() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), None, "EM", 100, 20)
    sizes = []
    for i, (x, y) in enumerate(drifting(6000, late=(1, 1, 2))):
        model.observe_one(x)
        model.learn_one(x, y)
        if i % 50 == 0:
            sizes.append(model._raw_memory_usage)
    assert max(sizes[60:]) <= 1.05 * max(sizes[:60])


def test_posteriors_are_those_of_the_profile_and_the_mix() -> None:
    """The pure-Python arithmetic beside the core's gate and `adapt`, where all is trusted."""
    model = trained()
    assert model._watch is not None
    assert model.profile is not None
    model._watch.trust = 1.0
    labels = model._watch.labels
    prior = np.array([model.prior[label] for label in labels])
    for x, _ in list(drifting(100, seed=3)):
        raw = model.model.predict_proba_one(x)
        scores = np.maximum([[raw[label] for label in labels]], 1e-6)
        rows = model.profile.rows(scores / scores.sum())
        wanted = adapt(rows, prior, model.profile.soft_prior)[0]
        found = model.predict_proba_one(x)
        np.testing.assert_allclose([found[label] for label in labels], wanted, atol=2e-6)


def test_real_classes_by_name() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=600, refit_every=100)
    for x, y in ImageSegments().take(1500):
        model.observe_one(x)
        model.learn_one(x, y)
    assert set(model.prior) == {"brickface", "cement", "foliage", "grass", "path", "sky", "window"}
    assert sum(model.prior.values()) == pytest.approx(1.0)
