"""The parts of the classifier beside slow references: pairs, weighing, trust, frames."""

import math
from collections import deque
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model, multiclass, naive_bayes, preprocessing, tree
from stream_leip_connectors.river import LabelShiftClassifier
from stream_leip_connectors.river.pairs import FEWEST, KEPT, Pairs
from stream_leip_connectors.river.trust import Forecast, Trust, share
from stream_leip_connectors.river.watch import renumber
from stream_leip_connectors.river.weighing import FLOOR, Weighing, checked, floored

from stream_leip import InputError, Monitor
from stream_leip.adapt import adapt
from tests.river.events import NAMES, draw, drifting, posteriors, profile

MAKERS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 9)), max_size=80),
    st.integers(10, 30),
    st.integers(1, 40),
)
def test_pairs_are_the_last_ones_and_the_last_of_rare_classes(
    events: list[tuple[str, int]], most: int, asked: int
) -> None:
    pairs: Any = Pairs(most)
    plain: list[Any] = []
    for i, (label, extra) in enumerate(events):
        scores = {label: 0.5 + i / 1000, "abcd"[extra % 4]: 0.25 + extra / 100}
        pairs.add(scores, label)
        plain.append((scores, label))
    counts = {label: sum(each == label for _, each in plain) for label in "abcd"}
    known = pairs.known()
    assert set(known) == {label for label in "abcd" if counts[label] >= FEWEST}
    if not known:
        return
    last = deque(plain, maxlen=min(most, asked))
    wanted = [each for each in last if each[1] in known]
    lines, labels = pairs.last(asked, known)
    assert [known[j] for j in labels] == [label for _, label in wanted]
    for line, (given_scores, _) in zip(lines, wanted, strict=True):
        assert line.tolist() == [given_scores.get(name, 0.0) for name in known]
    every, truth = pairs.validation(asked, known)
    older = plain[: len(plain) - len(last)]
    for j, label in enumerate(known):
        inside = [s for s, each in wanted if each == label]
        more = [s for s, each in older if each == label][-max(0, KEPT - len(inside)) :]
        more = more if len(inside) < KEPT else []
        found = sorted(every[truth == j].tolist())
        assert found == sorted([s.get(name, 0.0) for name in known] for s in inside + more)


def test_a_model_that_has_no_opinion_is_none() -> None:
    assert checked({}, "model") == {}
    assert checked({"a": 0.0, "b": 0.0}, "model") == {}
    assert checked({"a": 2.0, "b": 6.0}, "model") == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize("mix", [(0.2, 0.3, 0.5), (0.9, 0.1, 0.0)])
def test_weighing_is_the_gate_and_adapt(mix: tuple[float, ...]) -> None:
    source, labels = profile(), ["x", "y", "z"]
    scores = floored(draw(200, (0.2, 0.2, 0.6), 3))
    weighing = Weighing(source, list(labels), np.array(mix))
    rows = source.rows(scores)
    wanted = adapt(rows, np.array(mix), source.soft_prior)
    plain = scores ** source.calibrator.scale[0]
    plain /= plain.sum(axis=1, keepdims=True)
    for trust in (0.0, 0.25, 1.0):
        many = weighing.many(scores, list(labels), trust)
        np.testing.assert_allclose(many, trust * wanted + (1 - trust) * plain, atol=1e-6)
        for line, both in zip(scores, many, strict=True):
            by_name = dict(zip(labels, line.tolist(), strict=True))
            one = weighing.posteriors(by_name, trust)
            np.testing.assert_allclose(list(one.values()), both, rtol=1e-12, atol=1e-15)
    to_row = Weighing(source, list(labels), source.soft_prior)
    for line, row in zip(scores.tolist(), rows, strict=True):
        np.testing.assert_allclose(to_row.row(dict(zip(labels, line, strict=True))), row, atol=1e-6)  # type: ignore[arg-type]


def test_a_class_unknown_to_the_profile_stays_beside_the_others() -> None:
    weighing = Weighing(profile(), ["x", "y", "z"], np.array([0.1, 0.1, 0.8]))
    found = weighing.posteriors({"x": 0.2, "y": 0.1, "z": 0.1, "new": 0.6}, 1.0)
    assert sum(found.values()) == pytest.approx(1.0)
    assert found["new"] > 0.2
    assert weighing.row({"x": 0.2, "y": 0.1, "z": 0.1, "new": 0.6}) is None
    row = weighing.row({"x": 0.4, "y": 0.2, "z": 0.2, "new": 0.2})
    assert row is not None
    assert sum(row) == pytest.approx(1.0)


def test_rows_are_what_one_row_at_a_time_is() -> None:
    weighing = Weighing(profile(), ["x", "y", "z"], np.array([0.1, 0.1, 0.8]))
    known = draw(200, (0.2, 0.2, 0.6), 3) * np.linspace(0.0, 1.0, 200)[:, None]
    rows, fine = weighing.rows(known)
    one_by_one = [
        weighing.row({**dict(zip("xyz", line, strict=True)), "new": 1.0 - sum(line)})
        for line in known.tolist()
    ]
    assert fine.tolist() == [row is not None for row in one_by_one]
    wanted = np.array([row for row in one_by_one if row is not None], np.float32)
    np.testing.assert_allclose(rows, wanted, rtol=1e-6)


def test_a_model_that_forgot_all_known_classes_makes_no_row() -> None:
    weighing = Weighing(profile(), ["x", "y", "z"], np.array([0.1, 0.1, 0.8]))
    assert weighing.row({"new": 1.0}) is None
    assert weighing.posteriors({"new": 1.0}, 1.0) == {"new": 1.0}


def test_zeros_and_sure_posteriors_stay_finite() -> None:
    weighing = Weighing(profile(), ["x", "y", "z"], np.array([1.0, 0.0, 0.0]))
    for scores in ({"x": 0.0, "y": 1.0, "z": 0.0}, {"x": 1.0, "y": 0.0, "z": 0.0}):
        found = weighing.posteriors(scores, 1.0)
        assert sum(found.values()) == pytest.approx(1.0)
        assert min(found.values()) >= 0.0
    assert floored(np.array([[0.0, 1.0]]))[0, 0] == pytest.approx(FLOOR)


def test_trust_grows_where_adapting_pays_and_falls_where_it_does_not() -> None:
    trust = Trust()
    assert share(trust.against) < 1e-6
    rng = np.random.default_rng(0)
    for i in range(8):
        labels = rng.choice(3, size=200, p=[0.1, 0.1, 0.8])
        trust.ask(posteriors(labels, i), labels, profile())
    assert share(trust.against) > 0.99
    for i in range(3):
        # Another model: its scores do not mean what those of the profile did.
        labels = rng.choice(3, size=200, p=[0.1, 0.1, 0.8])
        scores = posteriors(labels, i)[:, [2, 0, 1]]
        trust.ask(scores, labels, profile())
    assert share(trust.against) < 0.01


def test_a_forecast_is_the_hits_to_come_less_their_noise() -> None:
    """Of fresh events under the mix, beside what the pairs of another mix foretell."""
    rng = np.random.default_rng(0)
    known = rng.integers(3, size=3000)
    forecast = Forecast(profile(), floored(posteriors(known, 1, 0.6)), known)
    mix = np.array([0.1, 0.2, 0.7])
    labels = rng.choice(3, size=100_000, p=mix)
    scores = posteriors(labels, 2, 0.6)
    for factors in (mix, mix[::-1], np.ones(3)):
        hits = (scores * factors).argmax(axis=1) == labels
        lost = np.mean(scores.argmax(axis=1) == labels) - np.mean(hits)
        changed = (scores * factors).argmax(axis=1) != scores.argmax(axis=1)
        noise = math.sqrt(3000 * float(np.mean(changed)))
        found = forecast.against(factors, mix)
        assert found == pytest.approx(3000 * lost - noise, abs=2.5 * noise)
    assert forecast.against(mix, mix) < 0.0 < forecast.against(mix[::-1], mix)
    assert forecast.against(np.ones(3), mix) == 0.0


def test_what_the_pairs_foretell_to_cost_hits_is_not_adapted() -> None:
    """Biases that are best by likelihood may be wrong about labels; no label to come is needed."""
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=400, refit_every=40)
    for x, y in drifting(3000):
        model.observe_one(x)
        model.learn_one(x, y)
    watch = model._watch
    assert watch is not None
    assert model.trust > 0.9
    watch._forecast._hits[:] = True  # as if the model alone were never wrong
    for x, _ in list(drifting(200, seed=3)):
        model.observe_one(x)
    assert model.trust < 0.01


def test_an_update_goes_by_the_numbers_of_the_whole_stream() -> None:
    monitor = Monitor(profile())
    updates = monitor.update_many(draw(1500, (0.8, 0.1, 0.1), 5))
    update = next(each for each in updates if each.alarm is not None and each.alarm["raised"])
    assert update.alarm is not None
    later = renumber(update, 1000, 7)
    assert later.alarm is not None
    assert later.sequence == update.sequence + 7
    assert later.last == update.last + 1000  # type: ignore[operator]
    assert later.alarm["since"] == update.alarm["since"] + 1000
    assert later.changed_at == update.changed_at + 1000  # type: ignore[operator]
    np.testing.assert_array_equal(later.prior, update.prior)


MODELS: dict[str, Any] = {
    "GaussianNB": naive_bayes.GaussianNB,
    "scaled": lambda: preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
    "OneVsRest": lambda: multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
    "ComplementNB": naive_bayes.ComplementNB,
}


def frame_of(kind: str, events: list[Any]) -> Any:
    columns = {name: [abs(x[name]) for x, _ in events] for name in ("u", "v")}
    return MAKERS[kind](columns)


@pytest.mark.parametrize(
    ("name", "kind", "observing"),
    [
        *((name, "pandas", False) for name in MODELS),
        *(("GaussianNB", kind, True) for kind in MAKERS),
        ("HoeffdingTree", "polars", True),
    ],
)
def test_frames_give_what_rows_give(name: str, kind: str, observing: bool) -> None:
    one, many = (
        LabelShiftClassifier(
            MODELS[name](), labelled=100, refit_every=20, observe_on_predict=observing
        )
        for _ in range(2)
    )
    events = list(drifting(400))
    for begin in range(0, 400, 80):
        part = events[begin : begin + 80]
        rows = [{key: abs(value) for key, value in x.items()} for x, _ in part]
        frame = frame_of(kind, part)
        wanted = [one.predict_proba_one(x) for x in rows]
        found = many.predict_proba_many(frame)
        if any(wanted):
            for label in wanted[0]:
                column = np.asarray(found[str(label)], float)
                np.testing.assert_allclose(column, [line[label] for line in wanted], rtol=1e-9)
        for x in rows:
            one.observe_one(x)
        many.observe_many(frame)
        labels = [y for _, y in part]
        for x, y in zip(rows, labels, strict=True):
            one.learn_one(x, y)
        series = pl.Series(labels) if kind == "polars" else pd.Series(labels)
        many.learn_many(frame, pa.chunked_array([labels]) if kind == "pyarrow" else series)
    assert one.ready
    assert many.prior == pytest.approx(one.prior)
    frame = frame_of(kind, events[:50])
    found = many.predict_many(frame)
    kinds = {"pandas": pd.Series, "polars": pl.Series, "pyarrow": pa.ChunkedArray}
    assert isinstance(found, kinds[kind])
    wanted_labels = [one.predict_one({k: abs(v) for k, v in x.items()}) for x, _ in events[:50]]
    assert found.to_pylist() if kind == "pyarrow" else list(found) == wanted_labels


def test_labels_that_are_no_text_come_back_from_any_frame() -> None:
    model = LabelShiftClassifier(naive_bayes.GaussianNB(), labelled=100, refit_every=20)
    for x, y in drifting(300):
        model.learn_one(x, y == "c")
    frame = pl.DataFrame({"u": [-2.0, 3.0], "v": [0.0, 0.0]})
    assert list(model.predict_many(frame)) == [False, True]
    assert model.predict_proba_many(frame).columns == ["False", "True"]


def test_nan_in_a_frame_is_refused_with_the_models_name() -> None:
    class Spoilt(naive_bayes.GaussianNB):
        def predict_proba_one(self, x: Any, **kwargs: Any) -> Any:
            return dict.fromkeys(NAMES, float("nan"))

        def predict_proba_many(self, X: Any) -> Any:
            return pd.DataFrame(dict.fromkeys(NAMES, [float("nan")] * len(X)))

    model = LabelShiftClassifier(Spoilt())
    with pytest.raises(InputError, match="model: Spoilt gave nan as the probability of 'ant'"):
        model.predict_proba_many(pd.DataFrame({"u": [1.0, 2.0]}))
