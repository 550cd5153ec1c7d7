"""The calibrator with a ridge, and the seams for sources that are fitted again and again."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from stream_leip.calibration import apply, as_logits, fit_calibrator, nll, steady_calibrator
from stream_leip.fitting import Labelled, describe_source, fit_source, judge, renew_source


def draw(n: int, m: int, seed: int, strength: float = 2.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(m), rng.integers(m, size=n - m)])
    logits = strength * np.eye(m)[labels] + rng.normal(size=(n, m)) + 0.3 * np.arange(m)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), labels


def slow(logits: Any, labels: Any) -> Any:
    """The same by a general optimiser: scale, then biases."""
    m = logits.shape[1]
    home = np.append(1.0, np.zeros(m))

    def loss(theta: Any) -> float:
        v = theta[0] * logits + theta[1:]
        v = v - v.max(axis=1, keepdims=True)
        norm = np.log(np.exp(v).sum(axis=1))
        hit = v[np.arange(len(labels)), labels]
        return float((norm - hit).sum() + 0.5 * ((theta - home) ** 2).sum())

    bounds: Any = [(0.0, None)] + [(None, None)] * m
    options: Any = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 1_000_000}
    return minimize(loss, home, method="L-BFGS-B", bounds=bounds, options=options).x


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(10, 150),
    st.integers(0, 10**6),
    st.sampled_from([-1.0, 0.0, 2.0, 9.0]),
)
def test_it_is_the_optimum_with_the_ridge(m: int, n: int, seed: int, strength: float) -> None:
    logits, labels = draw(n, m, seed, strength)
    found = steady_calibrator(logits, labels)
    wanted = slow(logits, labels)
    np.testing.assert_allclose(found.scale, wanted[0], atol=2e-4)
    np.testing.assert_allclose(found.bias, wanted[1:] - wanted[1:].mean(), atol=2e-3)
    assert found.method == "BCTS"


def test_with_many_rows_it_is_bcts() -> None:
    logits, labels = draw(20_000, 4, 0)
    ridge, plain = steady_calibrator(logits, labels), fit_calibrator("BCTS", logits, labels)
    np.testing.assert_allclose(ridge.scale, plain.scale, atol=1e-3)
    np.testing.assert_allclose(ridge.bias, plain.bias, atol=1e-3)


def test_a_start_changes_nothing_but_the_time() -> None:
    logits, labels = draw(500, 5, 1)
    other = steady_calibrator(*draw(500, 5, 2))
    cold, warm = steady_calibrator(logits, labels), steady_calibrator(logits, labels, other)
    np.testing.assert_allclose(warm.scale, cold.scale, rtol=1e-7)
    np.testing.assert_allclose(warm.bias, cold.bias, atol=1e-7)


def test_separable_rows_have_a_calm_optimum() -> None:
    labels = np.repeat(np.arange(3), 4)
    logits = 20.0 * np.eye(3)[labels]
    found = steady_calibrator(logits, labels)
    nudged = steady_calibrator(logits + 1e-9, labels)
    np.testing.assert_allclose(found.scale, nudged.scale, rtol=1e-6)
    assert nll(apply(found, logits), labels) < 0.01


@pytest.fixture
def data() -> Labelled:
    logits, labels = draw(600, 3, 3)
    scores = np.exp(logits)
    return Labelled(
        scores, as_logits(scores, "probabilities"), labels, ("a", "b", "c"), "probabilities"
    )


def test_a_source_is_described_as_it_is_fitted(data: Labelled) -> None:
    calibrator = fit_calibrator("BCTS", data.logits, data.labels)
    described = describe_source(data, calibrator, 0)
    assert described.fingerprint == fit_source(data, "BCTS", 0).fingerprint


def test_a_renewed_source_has_the_priors_of_the_newer_data(data: Labelled) -> None:
    before = fit_source(data, "BCTS", 0)
    newer = data.part(np.arange(600) % 2 == 0)
    calibrator = steady_calibrator(newer.logits, newer.labels)
    renewed = renew_source(before, newer, calibrator)
    wanted = describe_source(newer, calibrator, 0)
    np.testing.assert_array_equal(renewed.soft_prior, wanted.soft_prior)
    np.testing.assert_array_equal(renewed.recalls, wanted.recalls)
    assert renewed.calibrator is calibrator
    assert renewed.known is before.known
    assert renewed.replay is before.replay


def test_judging_takes_as_many_draws_as_asked(data: Labelled) -> None:
    seen: list[tuple[int, int]] = []
    fit = partial(fit_calibrator, "BCTS")
    note = lambda done, of: seen.append((done, of))  # noqa: E731
    errors = judge(data, fit, 0, draws=2, sizes=(100, 500), progress=note)
    assert seen[-1] == (60, 60)
    assert errors.sizes == (100, 500)
    assert set(errors.errors) == {"LEIP", "EM"}
    assert all(0.0 < error < 0.5 for by in errors.errors.values() for error in by)
