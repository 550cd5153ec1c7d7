"""The assumption check: is it only the class mix that changed?"""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import EM, InputError, SourceProfile
from stream_leip.assumption import Moments, check, moments, spend
from stream_leip.calibration import as_logits
from stream_leip.estimators.estimate import ALL_CLASSES, NO_WEIGHTS
from stream_leip.fitting import Labelled, fit_source
from stream_leip.pane import Pane
from tests import references_trust as references
from tests.data import load
from tests.strategies import make_profile, scopes
from tests.test_evidence import source
from tests.test_interval import Given, estimate, shifted, sparse


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
@pytest.mark.parametrize("n", [50, 1000])
@pytest.mark.parametrize("factor", [1.0, 0.9, 0.7])
def test_the_probability_is_that_of_the_slow_way(name: str, n: int, factor: float) -> None:
    profile = source(name, 800)
    data = load(name)
    rows = profile.rows(factor * data["test_logits"][:n])
    prior = estimate(rows, profile)
    found = check(moments(Given(rows), profile), profile, prior)
    p, share = references.check(rows, profile.evidence.features, prior)
    assert found.p == pytest.approx(p, rel=1e-5, abs=1e-12)
    assert found.validation_share == pytest.approx(share, rel=1e-6)


def test_moments_are_sums_over_rows() -> None:
    profile = source("mnist_mlp", 500)
    rows = shifted("mnist_mlp", 200, 1.0, profile)
    found = moments(Given(rows), profile)
    slow = np.array([references.check_features(row, profile.evidence.features) for row in rows])
    assert found.n == 200
    np.testing.assert_allclose(found.total, slow.sum(axis=0), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.products, slow.T @ slow, rtol=1e-6, atol=1e-6)


@given(scopes(), st.data())
def test_moments_add_up(
    scope: tuple[NDArray[np.float32], SourceProfile], data: st.DataObject
) -> None:
    rows, profile = scope
    cut = data.draw(st.integers(0, len(rows)))
    whole = moments(Given(rows), profile)
    parts = moments(Given(rows[:cut]), profile) + moments(Given(rows[cut:]), profile)
    assert parts.n == whole.n == len(rows)
    np.testing.assert_allclose(parts.total, whole.total, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(parts.products, whole.products, rtol=1e-9, atol=1e-9)
    order = np.random.default_rng(0).permutation(len(rows))
    again = moments(Given(rows[order]), profile)
    np.testing.assert_allclose(again.products, whole.products, rtol=1e-9, atol=1e-9)


@given(scopes(), st.sampled_from([0.02, 0.5, 1.0]))
@settings(max_examples=150)
def test_any_rows_have_a_probability(
    scope: tuple[NDArray[np.float32], SourceProfile], threshold: float
) -> None:
    rows, profile = scope
    found = check(moments(Given(rows), profile), profile, estimate(rows, profile), threshold)
    assert 0.0 <= found.p <= 1.0
    assert found.flagged == (found.p < threshold)
    assert 0.0 <= found.validation_share <= 1.0 + 1e-9
    assert found.message
    assert json.loads(json.dumps(found.to_dict())) == {
        "p": found.p,
        "flagged": found.flagged,
        "validation_share": found.validation_share,
        "message": found.message,
    }


@pytest.mark.parametrize("m", [2, 3, 10])
@pytest.mark.parametrize("n", [1, 2, 50])
@pytest.mark.parametrize("kind", ["one-hot", "flat", "one class"])
def test_extreme_rows_have_a_check(m: int, n: int, kind: str) -> None:
    profile = make_profile(np.full(m, 1.0 / m))
    rows = np.eye(m, dtype=np.float32)[np.arange(n) % m]
    if kind == "flat":
        rows = np.full((n, m), 1.0 / m, np.float32)
    elif kind == "one class":
        rows = np.eye(m, dtype=np.float32)[np.zeros(n, int)]
    found = check(moments(Given(rows), profile), profile, estimate(rows, profile))
    assert np.isfinite([found.p, found.validation_share]).all()
    if n == 1:
        assert found.p == 1.0
        assert "too few" in found.message


def test_no_rows_are_too_few() -> None:
    profile = make_profile(np.array([0.4, 0.6]))
    found = check(moments(Given(np.empty((0, 2), np.float32)), profile), profile, np.ones(2) / 2)
    assert (found.p, found.flagged) == (1.0, False)
    assert "0 rows are too few" in found.message


def one_hot_source(calls: NDArray[np.int64], labels: NDArray[np.int64]) -> SourceProfile:
    scores = np.eye(int(labels.max()) + 1)[calls]
    names = tuple(f"c{j}" for j in range(scores.shape[1]))
    data = Labelled(scores, as_logits(scores, "probabilities"), labels, names, "probabilities")
    return fit_source(data, "none", seed=0)


def test_a_source_of_one_hot_rows_can_be_checked() -> None:
    labels = np.arange(90) % 3
    calls = np.where(np.arange(90) % 10 == 0, (labels + 1) % 3, labels)
    profile = one_hot_source(calls, labels)
    rows = np.eye(3, dtype=np.float32)[np.arange(60) % 3]
    found = check(moments(Given(rows), profile), profile, np.ones(3) / 3)
    assert 0.0 <= found.p <= 1.0


def test_a_class_that_is_never_called_can_be_checked() -> None:
    labels = np.arange(90) % 3
    profile = one_hot_source(np.minimum(labels, 1), labels)
    rows = np.eye(3, dtype=np.float32)[np.arange(60) % 2]
    found = check(moments(Given(rows), profile), profile, np.array([0.5, 0.25, 0.25]))
    assert 0.0 <= found.p <= 1.0


def test_a_new_mix_passes_and_changed_inputs_do_not() -> None:
    profile = source("cifar10_resnet20", 2000)
    data = load("cifar10_resnet20")
    rows = shifted("cifar10_resnet20", 2000, 0.5, profile)
    fine = check(moments(Pane.seal(rows), profile), profile, estimate(rows, profile))
    assert not fine.flagged
    assert fine.message.startswith("nothing says that more than the class mix changed (p = 0.")
    assert f"causes {fine.validation_share:.0%} of the uncertainty" in fine.message
    noisy = data["test_logits"][:2000] + 2.0 * np.random.default_rng(0).normal(size=(2000, 10))
    rows = profile.rows(noisy)
    changed = check(moments(Pane.seal(rows), profile), profile, estimate(rows, profile))
    assert changed.flagged
    assert changed.message.startswith(
        "the inputs changed in a way a new class mix does not explain (p < 0.0001;"
    )


def test_weak_classes_are_named() -> None:
    labels = np.array([0] * 60 + [1] * 60 + [2, 3, 4, 5])
    logits = 2.0 * np.eye(6)[labels] + np.random.default_rng(0).normal(size=(124, 6))
    names = ("cat", "dog", "fox", "hen", "owl", "yak")
    profile = fit_source(Labelled(logits, logits, labels, names, "logits"), "BCTS", seed=0)
    rows = profile.rows(logits[:100])
    found = check(moments(Given(rows), profile), profile, estimate(rows, profile))
    assert found.message.endswith("; weak for fox, hen, owl, …: fewer than 3 validation rows")


def test_spending_sums_to_five_per_cent() -> None:
    assert spend(1) == pytest.approx(0.025)
    assert spend(2) == pytest.approx(0.05 / 6)
    assert sum(map(spend, range(1, 10_000))) == pytest.approx(0.05, rel=1e-3)


def test_entries_kept_stand_for_their_rows() -> None:
    profile = source("mnist_mlp", 500)
    rows = shifted("mnist_mlp", 300, 1.0, profile)
    whole = moments(Given(rows), profile)
    kept = moments(sparse(rows, 10), profile)
    np.testing.assert_allclose(kept.products, whole.products, rtol=1e-4, atol=1e-3)
    few = sparse(rows, 3)
    spread = np.empty_like(rows)
    for i in range(len(rows)):
        inside = few.classes[i].astype(int)
        rest = profile.soft_prior.copy()
        rest[inside] = 0.0
        spread[i] = (1.0 - few.rows[i].sum(dtype=float)) * rest / rest.sum()
        spread[i, inside] = few.rows[i]
    features = profile.evidence_of(3).features
    expected = np.array([references.check_features(row, features) for row in spread])
    found = moments(few, profile)
    np.testing.assert_allclose(found.total, expected.sum(axis=0), rtol=1e-3, atol=1e-2)
    with pytest.raises(InputError, match="moments: rows of 3 entries and of 0"):
        _ = found + whole


def test_keeping_few_entries_is_no_change_of_inputs() -> None:
    profile = source("cifar10_resnet20", 2000)
    rows = shifted("cifar10_resnet20", 2000, 1.0, profile)
    for k in (2, 4):
        few = sparse(rows, k)
        prior = EM().estimate_ranked(few, profile, NO_WEIGHTS).prior
        assert not check(moments(few, profile), profile, prior).flagged


@pytest.mark.parametrize("k", [None, 6])
def test_many_classes_are_checked_in_groups(k: int | None) -> None:
    rng = np.random.default_rng(0)
    m = 80

    def draw(labels: NDArray[np.int64]) -> Any:
        return 3.0 * np.eye(m)[labels] + rng.normal(size=(len(labels), m))

    known = np.concatenate([np.arange(m), rng.integers(m, size=6000)])
    logits = draw(known)
    names = tuple(map(str, range(m)))
    profile = fit_source(Labelled(logits, logits, known, names, "logits"), "BCTS", seed=0)
    features = profile.evidence.features
    assert len(features.factor) == 50

    def judge(logits: Any) -> Any:
        rows = profile.rows(logits)
        ranked = Given(rows) if k is None else sparse(rows, k)
        seen = moments(ranked, profile)
        assert seen.total.shape == (100,)
        return check(seen, profile, estimate(rows, profile)).p

    target = rng.integers(m, size=2000)
    assert judge(draw(target)) > 0.001
    assert judge(0.6 * draw(target)) < 1e-6
    rows = profile.rows(draw(target))
    floored = np.maximum(rows.astype(float), 1e-12)
    grouped = np.stack([np.bincount(features.groups, row, minlength=50) for row in floored])
    slow = np.array([references.check_features(row, features) for row in grouped])
    found = moments(Given(rows), profile)
    np.testing.assert_allclose(found.total, slow.sum(axis=0), rtol=1e-4, atol=1e-3)


def test_moments_are_plain_arrays() -> None:
    profile = make_profile(np.array([0.4, 0.6]))
    found = moments(Given(np.array([[0.3, 0.7]], np.float32), ALL_CLASSES), profile)
    again = Moments(found.n, np.array(found.total.tolist()), np.array(found.products.tolist()))
    np.testing.assert_array_equal((again + found).total, 2 * found.total)
