"""Intervals of a window's estimate."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import EM, InputError, SourceProfile
from stream_leip._kernels.interval import reach
from stream_leip._kernels.logs import fill_logs
from stream_leip.calibration import Method
from stream_leip.estimators.estimate import ALL_CLASSES, NO_WEIGHTS
from stream_leip.interval import (
    interval,
    mean_covariance,
    squared_quantile,
    validation_variance,
)
from stream_leip.pane import Pane
from stream_leip.profile import SourcePrior
from tests import references_trust as references
from tests.data import load
from tests.strategies import make_profile, scopes
from tests.test_evidence import source


class Given(NamedTuple):
    """Rows as they come, in place of a pane."""

    rows: NDArray[np.float32]
    classes: NDArray[np.uint16] = ALL_CLASSES
    labels: Any = None
    keys: Any = None

    def split(self, threshold: float) -> int:
        raise NotImplementedError

    def confident(self, threshold: float) -> Any:
        raise NotImplementedError


def shifted(name: str, n: int, alpha: float, profile: SourceProfile) -> NDArray[np.float32]:
    data = load(name)
    rng = np.random.default_rng(n)
    labels = data["test_labels"].astype(np.int64)
    prior = rng.dirichlet(np.full(10, alpha))
    weight = (prior / np.bincount(labels))[labels]
    return profile.rows(data["test_logits"][rng.choice(len(labels), n, p=weight / weight.sum())])


def estimate(
    rows: NDArray[np.float32],
    profile: SourceProfile,
    which: SourcePrior = "soft",
    weights: Any = None,
) -> NDArray[np.float64]:
    return EM(prior=which).estimate(rows, profile, weights=weights).prior


CASES: list[tuple[str, Method, SourcePrior, int, float]] = [
    ("mnist_mlp", "none", "soft", 300, 0.3),
    ("mnist_mlp", "none", "hard", 300, 0.3),
    ("mnist_mlp", "TS", "soft", 300, 1.0),
    ("mnist_mlp", "TS", "hard", 100, 0.1),
    ("mnist_mlp", "BCTS", "soft", 1000, 0.1),
    ("cifar10_resnet20", "BCTS", "soft", 400, 1.0),
    ("cifar10_resnet20", "BCTS", "hard", 20, 0.5),
    ("cifar10_resnet20", "NBVS", "soft", 300, 0.5),
    ("mnist_mlp", "VS", "soft", 300, 1.0),
    ("cifar10_resnet20", "VS", "hard", 300, 10.0),
]


@pytest.mark.parametrize(("name", "method", "which", "n", "alpha"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_ends_are_those_of_the_slow_way(
    name: str, method: Method, which: SourcePrior, n: int, alpha: float, weighted: bool
) -> None:
    profile = source(name, 600, method)
    rows = shifted(name, n, alpha, profile)
    weights = 0.99 ** np.arange(float(n)) if weighted else NO_WEIGHTS
    scaled = weights * weights.sum() / (weights**2).sum() if weighted else np.ones(n)
    found = estimate(rows, profile, which, weights if weighted else None)
    low, high = interval(Given(rows), profile, weights, found, 0.95, prior=which)
    slow_low, slow_high = references.interval(
        rows, scaled, found, squared_quantile(0.95), profile.prior(which), profile.evidence, which,
        profile.calibrator.bias,
    )  # fmt: skip
    np.testing.assert_allclose(low, np.minimum(slow_low, found), rtol=1e-3, atol=2e-5)
    np.testing.assert_allclose(high, np.maximum(slow_high, found), rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize(("name", "method", "which", "n", "alpha"), CASES)
def test_validation_variance_is_that_of_the_slow_way(
    name: str, method: Method, which: SourcePrior, n: int, alpha: float
) -> None:
    profile = source(name, 600, method)
    rows = shifted(name, n, alpha, profile)
    prior = estimate(rows, profile, which)
    q = (n * prior + 0.5) / (n + 5.0)
    evidence = profile.evidence
    _, pull, misfit, _ = references.validation_parts(
        rows, np.ones(n), q, profile.prior(which), evidence, which, profile.calibrator.bias
    )
    fitted = evidence.soft if which == "soft" else evidence.hard
    by_validation = pull @ fitted @ pull.T + np.outer(misfit, misfit)
    variance = validation_variance(Given(rows), profile, prior, prior=which)
    np.testing.assert_allclose(variance, np.diag(by_validation), rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
def test_mean_covariance_is_that_of_rows_adapted_to_the_prior(name: str) -> None:
    n = 500
    profile = source(name, 600)
    rows = shifted(name, n, 1.0, profile)
    prior = (n * estimate(rows, profile) + 0.5) / (n + 5.0)
    adapted = rows * (prior / profile.soft_prior)
    adapted /= adapted.sum(axis=1, keepdims=True)
    expected = np.cov(adapted.T, ddof=0) / n + 0.5 / n**2 * (np.eye(10) - 0.1)
    found = mean_covariance(Given(rows), profile, prior)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-9)
    # Rows adapted to their own estimate have it as their mean: nothing else need be known of them.
    np.testing.assert_allclose(adapted.mean(axis=0), prior, atol=2.0 / n)


def test_validation_variance_of_a_long_window_is_from_a_spread_of_its_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = source("cifar10_resnet20", 2000)
    pane = Pane.seal(shifted("cifar10_resnet20", 20_000, 1.0, profile))
    prior = estimate(pane.rows, profile)
    found = validation_variance(pane, profile, prior)
    monkeypatch.setattr("stream_leip.interval.SPREAD_ROWS", 20_000)
    of_all = validation_variance(pane, profile, prior)
    common = prior > 0.05
    np.testing.assert_allclose(np.sqrt(found)[common], np.sqrt(of_all)[common], rtol=0.15)
    np.testing.assert_allclose(np.sqrt(found), np.sqrt(of_all), rtol=0.8)


@given(scopes(), st.floats(0.5, 0.98), st.booleans(), st.randoms(use_true_random=False))
@settings(max_examples=150)
def test_what_every_interval_promises(
    scope: tuple[NDArray[np.float32], SourceProfile], level: float, weighted: bool, random: Any
) -> None:
    rows, profile = scope
    weights = np.array([random.uniform(0.01, 1.0) for _ in rows]) if weighted else NO_WEIGHTS
    found = estimate(rows, profile, weights=weights if weighted else None)
    other = profile.hard_prior
    low, high = interval(Given(rows), profile, weights, found, level, other)
    assert low.shape == high.shape == found.shape
    assert (low >= 0.0).all()
    assert (high <= 1.0).all()
    assert (low <= np.minimum(found, other)).all()
    assert (high >= np.maximum(found, other)).all()
    wider = interval(Given(rows), profile, weights, found, 0.99, other)
    assert (wider[0] <= low + 1e-6).all()
    assert (wider[1] >= high - 1e-6).all()
    order = np.array(random.sample(range(len(rows)), len(rows)))
    again = interval(
        Given(rows[order]), profile, weights[order] if weighted else weights, found, level, other
    )
    np.testing.assert_allclose(again, (low, high), atol=2e-5)
    everyone = (len(rows) * found + 0.5) / (len(rows) + 0.5 * len(found))
    matrix = mean_covariance(Given(rows), profile, everyone)
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9 * np.abs(matrix).max())
    assert (np.diag(matrix) >= -1e-12).all()
    assert (validation_variance(Given(rows), profile, found) >= 0.0).all()


@pytest.mark.parametrize("m", [2, 3, 10])
@pytest.mark.parametrize("n", [1, 2, 50])
@pytest.mark.parametrize("kind", ["one-hot", "flat", "one class", "twins"])
def test_extreme_rows_have_intervals(m: int, n: int, kind: str) -> None:
    profile = make_profile(np.full(m, 1.0 / m))
    rows = np.eye(m, dtype=np.float32)[np.arange(n) % m]
    if kind == "flat":
        rows = np.full((n, m), 1.0 / m, np.float32)
    elif kind == "one class":
        rows = np.eye(m, dtype=np.float32)[np.zeros(n, int)]
    elif kind == "twins":
        rows[:, :2] = rows[:, :2].sum(axis=1, keepdims=True) / 2
    found = estimate(rows, profile)
    low, high = interval(Given(rows), profile, NO_WEIGHTS, found, 0.95)
    assert (low >= 0.0).all()
    assert (low <= found).all()
    assert (found <= high).all()
    assert (high <= 1.0).all()
    if kind == "one class":
        assert low[0] < 1.0
        assert (high[1:] > 0.0).all()  # not seeing a class is no proof that there is none
    if kind in ("flat", "twins"):
        assert high[0] - low[0] > 0.2  # rows that cannot tell two classes apart say so
    if n == 1:
        assert high.max() > 0.7


def test_no_rows_leave_everything_open() -> None:
    profile = make_profile(np.array([0.5, 0.5]))
    rows = np.empty((0, 2), np.float32)
    low, high = interval(Given(rows), profile, NO_WEIGHTS, np.array([0.5, 0.5]), 0.95)
    assert low.tolist() == [0.0, 0.0]
    assert high.tolist() == [1.0, 1.0]
    with pytest.raises(InputError, match="rows: there are none"):
        mean_covariance(Given(rows), profile, low)
    with pytest.raises(InputError, match="rows: there are none"):
        validation_variance(Given(rows), profile, low)


def test_weights_count_as_much_as_their_effective_size() -> None:
    profile = source("mnist_mlp", 600)
    rows = shifted("mnist_mlp", 200, 1.0, profile)
    found = estimate(rows, profile)
    plain = interval(Given(rows), profile, NO_WEIGHTS, found, 0.95)
    np.testing.assert_allclose(
        interval(Given(rows), profile, np.full(200, 7.0), found, 0.95), plain, atol=1e-6
    )
    twice = interval(Given(np.repeat(rows, 2, axis=0)), profile, NO_WEIGHTS, found, 0.95)
    fading = interval(Given(rows), profile, 0.98 ** np.arange(200.0), found, 0.95)
    widths = [np.sum(high - low) for low, high in (twice, plain, fading)]
    assert widths == sorted(widths)


def sparse(rows: NDArray[np.float32], k: int) -> Given:
    """The k largest entries of each row."""
    order = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    return Given(np.take_along_axis(rows, order, axis=1), order.astype(np.uint16))


def test_all_entries_kept_are_as_good_as_rows() -> None:
    profile = source("mnist_mlp", 600)
    rows = shifted("mnist_mlp", 300, 1.0, profile)
    found = estimate(rows, profile)
    plain = interval(Given(rows), profile, NO_WEIGHTS, found, 0.95)
    kept = interval(sparse(rows, 10), profile, NO_WEIGHTS, found, 0.95)
    np.testing.assert_allclose(kept, plain, atol=1e-5)
    fewer = interval(sparse(rows, 5), profile, NO_WEIGHTS, found, 0.95)
    np.testing.assert_allclose(fewer, plain, atol=2e-3)


def many_classes(m: int, n: int) -> tuple[SourceProfile, NDArray[np.float32], NDArray[np.float64]]:
    rng = np.random.default_rng(m)
    prior = rng.dirichlet(np.ones(m))
    labels = rng.choice(m, n, p=prior)
    logits = 5.0 * np.eye(m)[labels] + rng.normal(size=(n, m))
    rows = references.softmax(logits).astype(np.float32)
    return make_profile(np.full(m, 1.0 / m)), rows, prior


@pytest.mark.parametrize("k", [None, 8])
def test_many_classes_have_wilson_ends_that_hold_the_truth(k: int | None) -> None:
    profile, rows, prior = many_classes(120, 2000)
    ranked = Given(rows) if k is None else sparse(rows, k)
    found = EM().estimate_ranked(ranked, profile, NO_WEIGHTS).prior
    low, high = interval(ranked, profile, NO_WEIGHTS, found, 0.95)
    assert ((low <= prior) & (prior <= high)).mean() > 0.93
    assert (high - low).mean() < 0.03
    assert (np.diag(mean_covariance(ranked, profile, (2000 * found + 0.5) / 2060)) > 0.0).all()
    assert (validation_variance(ranked, profile, found) >= 0.0).all()


def test_wilson_ends_are_near_those_of_the_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = source("mnist_mlp", 2000)
    rows = shifted("mnist_mlp", 1000, 0.5, profile)
    found = estimate(rows, profile)
    low, high = interval(Given(rows), profile, NO_WEIGHTS, found, 0.95)
    monkeypatch.setattr("stream_leip.interval.MANY", 5)
    rough_low, rough_high = interval(Given(rows), profile, NO_WEIGHTS, found, 0.95)
    seen = found > 0.01
    np.testing.assert_allclose((rough_high - rough_low)[seen], (high - low)[seen], rtol=0.1)
    assert (rough_high - rough_low >= 0.9 * (high - low)).all()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95, float("nan"), "high", None, True])
def test_an_unusable_level_is_refused(level: Any) -> None:
    with pytest.raises(InputError, match=r"level: .*between 0 and 1, such as 0\.95"):
        squared_quantile(level)


def test_levels_by_hand() -> None:
    assert squared_quantile(0.95) == pytest.approx(3.8415, abs=1e-4)
    assert squared_quantile(0.995) == pytest.approx(7.8794, abs=1e-4)


@given(
    st.lists(st.floats(-50, 50, allow_subnormal=False), min_size=1, max_size=40),
    st.floats(0.1, 20.0),
    st.floats(1e-6, 1.0),
    st.booleans(),
)
def test_reach_is_where_the_likelihood_has_fallen_by_the_limit(
    values: list[float], limit: float, cap: float, weighted: bool
) -> None:
    r = np.array(values)
    weights = np.linspace(0.1, 2.0, len(r)) if weighted else NO_WEIGHTS
    each = weights if weighted else np.ones(len(r))
    found = reach(r, weights, limit, cap)
    most = min(cap, (1 - 1e-9) / -r.min()) if r.min() < 0 else cap
    assume(most > 1e-9)
    assert 0.0 <= found <= most

    def fall(t: float) -> float:
        return float(-2.0 * (each * np.log1p(t * r)).sum())

    assert fall(found * (1 - 1e-4)) <= limit + 1e-6
    if found < most * (1 - 1e-5):
        assert fall(min(found * (1 + 1e-4), most * (1 - 1e-12))) >= limit - 1e-6


@given(st.lists(st.floats(2**-126, 1.0, width=32), min_size=1, max_size=50))
def test_logarithms_are_logarithms(values: list[float]) -> None:
    given_values = np.array(values, np.float32)
    out = np.empty(len(values))
    fill_logs(given_values, out)
    np.testing.assert_allclose(out, np.log(given_values.astype(float)), rtol=1e-9, atol=1e-10)
