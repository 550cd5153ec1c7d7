"""What a profile keeps of its validation rows."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import InputError, SourceProfile, fit_profile
from stream_leip import evidence as evidence_module
from stream_leip.calibration import METHODS, Calibrator, Method, as_logits
from stream_leip.evidence import GROUPS, KEPT, class_features
from stream_leip.fitting import Labelled, fit_source
from stream_leip.profile import SourcePrior
from tests import references_trust as references
from tests.data import validation
from tests.strategies import make_profile


def source(name: str, n: int, method: Method = "BCTS") -> SourceProfile:
    scores, labels = validation(name, n)
    names = tuple(map(str, range(10)))
    data = Labelled(scores, as_logits(scores, "logits"), labels, names, "logits")
    return fit_source(data, method, seed=0)


def overlapping() -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    rng = np.random.default_rng(3)
    labels = np.repeat(np.arange(3), (40, 50, 30))
    logits = 1.5 * np.eye(3)[labels] + rng.normal(size=(120, 3)) - 0.4 * np.arange(3)
    return labels, logits, rng.normal(size=(4, 3))


# What all classes of a row share has no say, so that contrasts within four rows are compared.
CONTRAST = np.kron(np.eye(4), np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]))


def of_contrasts(method: Method, which: SourcePrior) -> NDArray[np.float64]:
    """Covariance of contrasts of log x by the evidence."""
    labels, logits, at = overlapping()
    data = Labelled(logits, logits, labels, ("a", "b", "c"), "logits")
    profile = fit_source(data, method, seed=0)
    evidence = profile.evidence
    fitted = evidence.soft if which == "soft" else evidence.hard
    scale, bias = profile.calibrator.scale, profile.calibrator.bias
    own = method in ("NBVS", "VS")
    jacobian = []
    for z in at:
        log_row = np.log(references.softmax(z * scale + bias))
        for j in range(3):
            by_scale = np.eye(3)[j] * scale[j] * z[j] if own else log_row[j : j + 1]
            jacobian.append([*by_scale[: len(fitted) - 3], *np.eye(3)[j]])
    moved = CONTRAST @ np.array(jacobian)
    return np.asarray(moved @ fitted @ moved.T)


@pytest.mark.parametrize("which", ["soft", "hard"])
@pytest.mark.parametrize("method", METHODS)
def test_covariance_of_the_fit_is_that_of_small_reweightings(
    method: Method, which: SourcePrior, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, logits, at = overlapping()
    slow = references.jackknife_covariance(method, logits, labels, which, at, 1e-4)
    expected = CONTRAST @ slow @ CONTRAST.T
    monkeypatch.setattr(evidence_module, "_leverage", lambda pulled, _: np.zeros_like(pulled))
    found = of_contrasts(method, which)
    np.testing.assert_allclose(found, expected, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize("method", ["BCTS", "NBVS", "VS"])
def test_leverage_brings_it_nearer_to_leaving_rows_out(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, logits, at = overlapping()
    slow = references.jackknife_covariance(method, logits, labels, "soft", at, 1.0)
    expected = np.diag(CONTRAST @ slow @ CONTRAST.T)
    found = np.diag(of_contrasts(method, "soft"))
    monkeypatch.setattr(evidence_module, "_leverage", lambda pulled, _: np.zeros_like(pulled))
    without = np.diag(of_contrasts(method, "soft"))
    assert (without < found).all()
    assert (np.abs(found - expected) < np.abs(without - expected)).all()


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
def test_rows_tell_what_they_were_divided_by(name: str) -> None:
    profile = source(name, 2000, "VS")
    scores, _ = validation(name, 4000)
    held_out = as_logits(scores[2000:], "logits")
    values = held_out * profile.calibrator.scale + profile.calibrator.bias
    divided = np.log(np.exp(values).sum(axis=1))
    rows = np.maximum(profile.rows(scores[2000:]).astype(float), 1e-12)
    predicted = profile.evidence.normaliser[0] + np.log(rows) @ profile.evidence.normaliser[1:]
    unsure = rows.max(axis=1) < 0.9
    error = (divided - predicted)[unsure].std()
    assert error < 0.35 * divided[unsure].std()


def test_the_covariance_is_that_of_the_rows() -> None:
    profile = source("mnist_mlp", 800)
    rows = profile.rows(validation("mnist_mlp", 800)[0]).astype(float)
    np.testing.assert_allclose(profile.evidence.covariance, np.cov(rows.T), rtol=1e-5, atol=1e-9)
    assert profile.evidence.normaliser.shape == (0,)


def test_rows_are_kept_at_random_with_room_for_rare_classes() -> None:
    scores, labels = validation("mnist_mlp", 10_000)
    rare = np.flatnonzero(labels == 3)[:80]
    some = np.sort(np.concatenate([np.flatnonzero(labels != 3), rare]))
    data = Labelled(
        scores[some], as_logits(scores[some], "logits"), labels[some], tuple("0123456789"), "logits"
    )
    profile = fit_source(data, "BCTS", seed=0)
    evidence = profile.evidence
    assert evidence.rows.shape == (KEPT, 10)
    assert evidence.rows.dtype == np.float32
    assert (evidence.labels == 3).sum() == 80
    all_rows = profile.rows(scores[some])
    kept = {(row.tobytes(), int(y)) for row, y in zip(evidence.rows, evidence.labels, strict=True)}
    assert kept <= {(r.tobytes(), int(y)) for r, y in zip(all_rows, labels[some], strict=True)}
    other = fit_source(data, "BCTS", seed=1).evidence
    assert not np.array_equal(other.rows, evidence.rows)


def test_few_rows_are_all_kept() -> None:
    profile = source("mnist_mlp", 500)
    scores, labels = validation("mnist_mlp", 500)
    np.testing.assert_array_equal(profile.evidence.labels, labels)
    np.testing.assert_array_equal(profile.evidence.rows, profile.rows(scores))


@pytest.mark.parametrize("method", METHODS)
def test_files_keep_the_evidence(method: Method, tmp_path: Path) -> None:
    profile = source("mnist_mlp", 300, method)
    profile.save(tmp_path / "p.json")
    loaded = SourceProfile.load(tmp_path / "p.json")
    for name in ("covariance", "soft", "hard", "normaliser", "rows", "labels"):
        found, kept = getattr(loaded.evidence, name), getattr(profile.evidence, name)
        assert found.dtype == kept.dtype
        np.testing.assert_array_equal(found, kept)
    for name in ("groups", "centres", "factor", "means", "covariances", "variances", "counts"):
        found = getattr(loaded.evidence.features, name)
        np.testing.assert_array_equal(found, getattr(profile.evidence.features, name))
    assert loaded.evidence.features.offset == profile.evidence.features.offset


def test_a_profile_by_hand_says_that_it_has_none(tmp_path: Path) -> None:
    made = make_profile(np.array([0.4, 0.6]))
    bare = SourceProfile(made.classes, made.kind, made.calibrator, made.validation, made.replay)
    with pytest.raises(InputError, match=r"profile: it holds no evidence.*fit_profile"):
        _ = bare.evidence
    assert bare.fingerprint != made.fingerprint
    bare.save(tmp_path / "p.json")
    assert SourceProfile.load(tmp_path / "p.json").known is None


def test_many_classes_are_grouped_by_the_size_of_the_source() -> None:
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(60), rng.integers(20, 50, size=3000)])
    logits = 5.0 * np.eye(60)[labels] + rng.normal(size=(len(labels), 60))
    posterior = references.softmax(logits)
    found = class_features(posterior, labels, seed=0)
    assert found.counts.shape == (60,)
    assert found.means.shape == (2 * GROUPS, 60)
    assert found.covariances.shape == (GROUPS, 2 * GROUPS, 2 * GROUPS)
    alone = np.flatnonzero(np.bincount(found.groups)[found.groups] == 1)
    assert set(range(20, 50)) <= set(alone.tolist())
    assert found.group_counts[-1] == 11
    assert found.group_counts.sum() == len(labels)
    prior = np.full(60, 1 / 60)
    assert found.group(prior)[-1] == pytest.approx(11 / 60)
    within, worth = found.mix(prior)
    np.testing.assert_allclose(within.sum(axis=0), 1.0)
    assert worth[-1] == pytest.approx(11.0, rel=1e-3)
    tilted = prior.copy()
    tilted[np.flatnonzero(found.groups == GROUPS - 1)[0]] = 1.0
    assert found.mix(tilted)[1][-1] < 1.5


def test_a_class_of_one_row_has_the_pooled_covariance() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0] * 500 + [1] * 500 + [2])
    logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(1001, 3))
    found = class_features(references.softmax(logits), labels, seed=0)
    # The one row is its class's mean, so that it adds nothing.
    mixed = 499 * (found.covariances[0] + found.covariances[1]) / (1001 - 3)
    np.testing.assert_allclose(found.covariances[2], mixed, rtol=1e-9, atol=1e-15)


@given(st.integers(2, 5), st.sampled_from(METHODS), st.integers(0, 2**32 - 1))
def test_any_little_data_give_finite_evidence(m: int, method: Method, seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(m), rng.integers(m, size=int(rng.integers(0, 12)))])
    logits = rng.choice([0.0, 1.0, 30.0]) * rng.normal(size=(len(labels), m))
    data = Labelled(logits, logits, labels, tuple(map(str, range(m))), "logits")
    evidence = fit_source(data, method, seed=0).evidence
    for array in (evidence.covariance, evidence.soft, evidence.hard, evidence.normaliser):
        assert np.isfinite(array).all()
    features = evidence.features
    for array in (features.centres, features.factor, features.means, features.covariances):
        assert np.isfinite(array).all()


def test_probabilities_that_are_exactly_one_hot() -> None:
    labels = np.arange(30) % 3
    profile = fit_profile(np.eye(3)[labels], labels, kind="probabilities", calibration="none")
    assert isinstance(profile.calibrator, Calibrator)
    assert np.isfinite(profile.evidence.soft).all()
    assert np.isfinite(profile.evidence.features.factor).all()
