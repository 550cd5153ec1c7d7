"""What the classifier refuses, and that nothing changes by it."""

import math
import pickle
from typing import Any

import pytest
from river import base, linear_model, naive_bayes, stats
from stream_leip_connectors.river import LabelShiftClassifier

from stream_leip import InputError, Tumbling
from tests.river.events import drifting


class Refusing(naive_bayes.GaussianNB):
    """Takes no feature below -100, neither to predict nor, a step later, to learn."""

    late = False

    def _refuse(self, x: Any) -> None:
        if min(x.values()) < -100:
            raise ArithmeticError("too low")

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Any:
        if not self.late:
            self._refuse(x)
        return naive_bayes.GaussianNB.predict_proba_one(self, x)

    def learn_one(self, x: Any, y: Any) -> None:
        self._refuse(x)
        naive_bayes.GaussianNB.learn_one(self, x, y)


@pytest.mark.parametrize("late", [False, True])
def test_what_the_model_cannot_take_is_its_own_error_and_changes_nothing(late: bool) -> None:
    model = LabelShiftClassifier(Refusing(), labelled=100, refit_every=10)
    for x, y in drifting(600):
        model.observe_one(x)
        model.learn_one(x, y)
    before = pickle.dumps(model)
    bad: Any = {"u": -1000.0, "v": 0.0}
    Refusing.late = late
    try:
        with pytest.raises(ArithmeticError, match="too low"):
            model.learn_one(bad, "a")
        if not late:
            for verb in (model.predict_proba_one, model.predict_one, model.observe_one):
                with pytest.raises(ArithmeticError, match="too low"):
                    verb(bad)
    finally:
        Refusing.late = False
    assert pickle.dumps(model) == before


class Spoilt(naive_bayes.GaussianNB):
    """Gives what it is told to where a feature says so."""

    def predict_proba_one(self, x: Any, **kwargs: Any) -> Any:
        found = naive_bayes.GaussianNB.predict_proba_one(self, x)
        if "bad" in x and found:
            found["a"] = x["bad"]
        return found


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.5])
def test_posteriors_that_are_none_are_refused_with_the_models_name(value: float) -> None:
    model = LabelShiftClassifier(Spoilt(), labelled=100, refit_every=10)
    for x, y in drifting(600):
        model.observe_one(x)
        model.learn_one(x, y)
    before = pickle.dumps(model)
    bad = {"u": 0.0, "v": 0.0, "bad": value}
    for refused in (
        lambda: model.learn_one(bad, "a"),
        lambda: model.observe_one(bad),
        lambda: model.predict_proba_one(bad),
    ):
        with pytest.raises(InputError, match=r"model: Spoilt gave .* as the probability of 'a'"):
            refused()
    assert pickle.dumps(model) == before


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": stats.Mean()}, "model: Mean is no classifier of one label"),
        ({"model": linear_model.Perceptron}, "model: the class Perceptron is no classifier"),
        ({"window": Tumbling(seconds=60)}, "window: .* goes by event time"),
        ({"window": "wide"}, "window: 'wide' is no window"),
        ({"estimator": "best"}, "estimator: 'best' is unknown; use auto, LEIP, EM"),
        ({"labelled": 0}, "labelled: 0; use a whole number of at least 10"),
        ({"refit_every": 0}, "refit_every: 0; use"),
        ({"labelled": 50, "refit_every": 51}, "refit_every: 51 is more than the 50"),
        ({"seed": -1}, "seed: -1; use"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LabelShiftClassifier(**{"model": naive_bayes.GaussianNB(), **settings})


class Labelling(base.Classifier):
    """Has labels only."""

    def learn_one(self, x: Any, y: Any) -> None: ...


def test_a_model_without_probabilities_is_refused() -> None:
    with pytest.raises(InputError, match="model: Labelling gives no probabilities"):
        LabelShiftClassifier(Labelling())
