from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax

from stream_leip import InputError
from stream_leip.calibration import (
    METHODS,
    Method,
    apply,
    as_logits,
    choose_method,
    ece,
    fit_calibrator,
    folds_by_label,
    kept_rows,
    nll,
)
from tests import references
from tests.data import validation

FITTED: list[Method] = ["TS", "BCTS", "NBVS", "VS"]


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
@pytest.mark.parametrize("n", [500, 4000])
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
@pytest.mark.parametrize("method", FITTED)
def test_reaches_the_optimum(name: str, n: int, kind: Any, method: Method) -> None:
    scores, labels = validation(name, n)
    if kind == "probabilities":
        scores = np.exp(log_softmax(scores.astype(float), axis=1))
    logits = as_logits(scores, kind)
    calibrator = fit_calibrator(method, logits, labels)
    best = references.calibration_optimum(
        logits, labels, one_scale=method in ("TS", "BCTS"), with_bias=method in ("BCTS", "VS")
    )
    assert nll(apply(calibrator, logits), labels) - best < 1e-8
    assert not calibrator.bounded


@pytest.mark.parametrize("method", METHODS)
def test_parameters_have_the_shape_of_their_method(method: Method) -> None:
    logits = as_logits(*validation("mnist_mlp", 500)[:1], "logits")
    calibrator = fit_calibrator(method, logits, validation("mnist_mlp", 500)[1])
    assert calibrator.scale.shape == calibrator.bias.shape == (10,)
    assert (np.ptp(calibrator.scale) == 0) == (method in ("none", "TS", "BCTS"))
    assert (np.ptp(calibrator.bias) == 0) == (method in ("none", "TS", "NBVS"))


@pytest.mark.parametrize("method", FITTED)
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_separable_data_end_at_the_bounds_and_say_so(method: Method, size: float) -> None:
    labels = np.arange(60) % 3
    calibrator = fit_calibrator(method, size * (2.0 * np.eye(3)[labels] - 1.0), labels)
    assert np.isfinite(calibrator.scale).all()
    assert np.isfinite(calibrator.bias).all()
    assert calibrator.bounded


def test_equal_logits_tell_nothing_but_the_prior() -> None:
    labels = np.array([0] * 30 + [1] * 10)
    calibrator = fit_calibrator("BCTS", np.zeros((40, 2)), labels)
    posterior = np.exp(apply(calibrator, np.zeros((1, 2))))
    np.testing.assert_allclose(posterior, [[0.75, 0.25]], atol=1e-6)


def test_unknown_method_is_refused() -> None:
    wrong: Any = "Platt"
    with pytest.raises(InputError, match="calibration: 'Platt' is unknown"):
        fit_calibrator(wrong, np.zeros((2, 2)), np.array([0, 1]))


def test_auto_takes_the_least_cross_validated_loss() -> None:
    scores, labels = validation("mnist_mlp", 2000)
    logits = as_logits(scores, "logits")
    folds = folds_by_label(labels, np.random.default_rng(0))
    loss = {
        method: sum(
            nll(apply(fit_calibrator(method, logits[~f], labels[~f]), logits[f]), labels[f])
            * f.sum()
            for f in folds
        )
        for method in METHODS
    }
    assert choose_method(logits, labels, seed=0) == min(loss, key=loss.__getitem__)


def test_folds_are_stratified_and_small_classes_in_all() -> None:
    labels = np.array([0] * 50 + [1] * 7 + [2] * 3)
    folds = folds_by_label(labels, np.random.default_rng(0))
    assert len(folds) == 5
    for held_out in folds:
        assert held_out[:50].sum() == 10
        assert 1 <= held_out[50:57].sum() <= 2
        assert held_out[57:].all()
        kept = kept_rows(labels, held_out)
        assert kept[57:].all()
        assert not (kept & held_out)[:57].any()
    np.testing.assert_array_equal(np.sum(folds, axis=0)[:57], 1)


def test_ece_by_hand() -> None:
    posterior = np.log([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    # Two rows at 0.9, one right: off by 0.4; two rows at 0.6, both right: off by 0.4.
    assert ece(posterior, np.array([0, 1, 0, 0])) == pytest.approx(0.4)


@pytest.mark.parametrize("method", FITTED)
def test_a_few_huge_logits_do_not_spoil_the_rest(method: Method) -> None:
    scores, labels = validation("mnist_mlp", 2000)
    logits = as_logits(scores, "logits")
    right = np.flatnonzero(logits.argmax(axis=1) == labels)[:20]
    huge = logits.copy()
    huge[right, labels[right]] = 1e4
    rest = np.delete(np.arange(2000), right)
    plain = nll(
        apply(fit_calibrator(method, logits[rest], labels[rest]), logits[rest]), labels[rest]
    )
    spoilt = nll(apply(fit_calibrator(method, huge, labels), logits[rest]), labels[rest])
    assert spoilt < plain + 0.01


@pytest.mark.parametrize("size", [1e200, 1.7e308])
def test_logits_beyond_all_measure_are_cut(size: float) -> None:
    logits = as_logits(size * (2.0 * np.eye(3)[np.arange(30) % 3] - 1.0), "logits")
    for method in METHODS:
        calibrator = fit_calibrator(method, logits, np.arange(30) % 3)
        assert np.isfinite(apply(calibrator, logits)).all()
