"""One contract for all estimators, and each against a slow reference of its own."""

import itertools
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
    RLLS,
    Auto,
    ClassifyAndCount,
    Estimator,
    Fixed,
    InputError,
    MeanPosterior,
    Share,
    SourceProfile,
)
from stream_leip.estimators.confusion import regularisation, regularised_weights
from tests import references
from tests.strategies import make_profile, profiles, row_arrays, scopes

ALL: list[Estimator] = [
    LEIP(),
    LEIP("mean-recall"),
    LEIP("min-precision"),
    LEIP(Share(0.3)),
    LEIP(Fixed(0.7)),
    LEIP(prior="hard"),
    LEIP(smoothing=1.0),
    EM(),
    EM(prior="hard"),
    BBSE(),
    BBSE(soft=False),
    RLLS(),
    RLLS(soft=False),
    ClassifyAndCount(),
    MeanPosterior(),
    Auto(),
]
every = pytest.mark.parametrize("estimator", ALL, ids=str)


@every
@given(scope=scopes())
@settings(max_examples=25)
def test_prior_is_a_distribution_and_weights_its_ratio(
    estimator: Estimator, scope: tuple[NDArray[np.float32], SourceProfile]
) -> None:
    rows, profile = scope
    before = rows.copy()
    estimate = estimator.estimate(rows, profile)
    assert estimate.prior.min() >= 0
    assert estimate.prior.sum() == pytest.approx(1, abs=1e-12)
    assert estimate.n == len(rows)
    counts_labels = isinstance(estimator, BBSE | RLLS | ClassifyAndCount)
    named = getattr(estimator, "prior", "hard" if counts_labels else "soft")
    source = profile.hard_prior if named == "hard" else profile.soft_prior
    np.testing.assert_allclose(estimate.weights * source, estimate.prior, rtol=1e-12)
    np.testing.assert_array_equal(rows, before)


@every
@given(data=st.data())
@settings(max_examples=25)
def test_renaming_classes_renames_the_estimate(estimator: Estimator, data: st.DataObject) -> None:
    m = data.draw(st.integers(2, 5))
    profile = data.draw(profiles(m))
    # Continuous rows: where two classes tie exactly, the first in order has it.
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = rng.dirichlet(np.full(m, 0.5), 60).astype(np.float32)
    order = np.array(data.draw(st.permutations(range(m))))
    joint = profile.validation.hard[np.ix_(order, order)]
    renamed = make_profile(profile.soft_prior[order], joint)
    plain = estimator.estimate(rows, profile).prior
    found = estimator.estimate(np.ascontiguousarray(rows[:, order]), renamed).prior
    np.testing.assert_allclose(found, plain[order], atol=2e-5)


@every
@given(data=st.data())
@settings(max_examples=25)
def test_order_of_rows_does_not_matter(estimator: Estimator, data: st.DataObject) -> None:
    m = data.draw(st.integers(2, 5))
    profile = data.draw(profiles(m))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    rows = rng.dirichlet(np.full(m, 0.5), 60).astype(np.float32)
    if len(np.unique(rows.max(axis=1))) < len(rows):
        return  # LEIP's order among exact ties is that of arrival
    shuffled = rng.permutation(rows)
    np.testing.assert_allclose(
        estimator.estimate(shuffled, profile).prior,
        estimator.estimate(rows, profile).prior,
        atol=2e-5,
    )


@every
def test_one_row_and_one_class(estimator: Estimator) -> None:
    profile = make_profile(np.array([0.5, 0.3, 0.2]))
    sure = np.array([[0.0, 1.0, 0.0]], np.float32)
    for rows in (sure, np.repeat(sure, 100, axis=0)):
        prior = estimator.estimate(rows, profile).prior
        assert prior[1] == pytest.approx(1, abs=1e-2)


@every
@pytest.mark.parametrize("m", [2, 1000])
def test_few_and_many_classes(estimator: Estimator, m: int) -> None:
    rng = np.random.default_rng(m)
    source = rng.dirichlet(np.full(m, 50.0))
    target = rng.dirichlet(np.full(m, 1.0))
    labels = rng.choice(m, 3000, p=target)
    # Exact posteriors of unit Gaussians, four apart.
    logits = 4.0 * (rng.normal(size=(3000, m)) + 4.0 * np.eye(m)[labels]) + np.log(source)
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows = (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)
    prior = estimator.estimate(rows, make_profile(source, n=10**6)).prior
    drawn = np.bincount(labels, minlength=m) / 3000
    assert 0.5 * np.abs(prior - drawn).sum() < (0.02 if m == 2 else 0.25)


@every
def test_weights_of_whole_numbers_repeat_rows(estimator: Estimator) -> None:
    if isinstance(estimator, Auto) or (
        isinstance(estimator, LEIP) and not isinstance(estimator.threshold, Fixed)
    ):
        pytest.skip("auto chooses, and LEIP places its threshold, by rows and not by their weight")
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.full(4, 0.4), 50).astype(np.float32)
    times = rng.integers(0, 4, 50)
    profile = make_profile(np.array([0.1, 0.2, 0.3, 0.4]))
    weighted = estimator.estimate(rows, profile, weights=times).prior
    repeated = estimator.estimate(np.repeat(rows, times, axis=0), profile).prior
    np.testing.assert_allclose(weighted, repeated, atol=1e-4)


@every
@given(scope=scopes(), size=st.sampled_from([1e-3, 1.0, 7.0]))
@settings(max_examples=15)
def test_equal_weights_are_no_weights(
    estimator: Estimator, scope: tuple[NDArray[np.float32], SourceProfile], size: float
) -> None:
    rows, profile = scope
    if isinstance(estimator, LEIP) and estimator.smoothing and size != 1.0:
        return  # smoothing is in units of weight
    plain = estimator.estimate(rows, profile).prior
    weighted = estimator.estimate(rows, profile, weights=np.full(len(rows), size)).prior
    np.testing.assert_allclose(weighted, plain, atol=1e-6)


GOOD = np.array([[0.5, 0.5], [0.9, 0.1]], np.float32)


@every
@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([[0.5, 0.5]], "not a 2-D array"),
        (np.array([0.5, 0.5], np.float32), "not a 2-D array"),
        (np.array([[1, 0]]), "not float32"),
        (np.array([["a", "b"]]), "not float32"),
        (np.full((2, 3), 1 / 3, np.float32), "3 columns, but the profile has 2 classes"),
        (np.empty((0, 2), np.float32), "there are none"),
        (None, "not a 2-D array"),
        (np.full((2, 2), 1e300), "row 0 is not a distribution"),
        (np.array([[0.5, 0.5], [np.nan, 1]], np.float32), "row 1 is not a distribution"),
        (np.array([[0.5, 0.5], [np.inf, 1]], np.float32), "row 1 is not a distribution"),
        (np.array([[0.5, 0.5], [1.5, -0.5]], np.float32), "row 1 is not a distribution"),
        (np.array([[0.5, 0.5], [0.0, 0.0]], np.float32), "row 1 is not a distribution"),
        (np.array([[0.5, 0.5], [0.7, 0.7]], np.float32), "row 1 is not a distribution"),
    ],
)
def test_rows_that_no_gate_made_are_refused(estimator: Estimator, rows: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        estimator.estimate(rows, make_profile(np.array([0.5, 0.5])))


@every
@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ({"weights": [1.0]}, "weights: the shape"),
        ({"weights": [1.0, -1.0]}, "weight 1 is -1.0"),
        ({"weights": [np.nan, 1.0]}, "weight 0 is nan"),
        ({"weights": [0.0, 0.0]}, "all are zero"),
        ({"weights": ["a", "b"]}, "weights: not numbers"),
        ({"weights": [1e305, 1e305]}, "the largest is 1e\\+305; divide"),
        ({"start": [1.0]}, "start: the shape"),
        ({"start": [0.7, 0.7]}, "start: .* is not a prior"),
        ({"start": [np.nan, 1.0]}, "start: .* is not a prior"),
        ({"start": "ab"}, "start: not numbers"),
    ],
)
def test_bad_arguments_are_refused(
    estimator: Estimator, argument: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        estimator.estimate(GOOD, make_profile(np.array([0.5, 0.5])), **argument)


def mistyped(value: Any) -> Any:
    """A value that a type checker would refuse."""
    return value


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: LEIP(mistyped("recall")), "threshold: 'recall' is unknown"),
        (lambda: LEIP(prior=mistyped("mean")), "prior: 'mean' is unknown"),
        (lambda: LEIP(smoothing=-1), "smoothing: -1"),
        (lambda: EM(prior=mistyped("mean")), "prior: 'mean' is unknown"),
        (lambda: EM(tolerance=0), "tolerance: 0"),
        (lambda: Share(0), "Share: 0"),
        (lambda: Share(1.5), "Share: 1.5"),
        (lambda: Fixed(-0.1), "Fixed: -0.1"),
        (lambda: LEIP(smoothing=mistyped("a")), "smoothing: 'a'"),
        (lambda: EM(tolerance=mistyped("a")), "tolerance: 'a'"),
        (lambda: Share(mistyped("a")), "Share: 'a'"),
        (lambda: Fixed(mistyped(None)), "Fixed: None"),
    ],
)
def test_bad_settings_are_refused(make: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make()


@given(scope=scopes(), share=st.floats(0.05, 1.0), smoothing=st.sampled_from([0.0, 1.0]))
@settings(max_examples=150)
def test_leip_is_the_papers_algorithm(
    scope: tuple[NDArray[np.float32], SourceProfile], share: float, smoothing: float
) -> None:
    rows, profile = scope
    found = LEIP(Share(share), smoothing=smoothing).estimate(rows, profile)
    slow = references.leip(rows, profile.soft_prior, share, smoothing)
    np.testing.assert_allclose(found.prior, slow, atol=1e-12)
    confident = found.details["confident"]
    assert isinstance(confident, np.ndarray)
    assert confident.sum() + found.details["buffered"] == len(rows)


@given(rows=row_arrays(4, min_rows=2000, max_rows=6000), share=st.floats(0.05, 1.0))
@settings(max_examples=10)
def test_leip_of_many_rows_is_the_papers_algorithm(rows: NDArray[np.float32], share: float) -> None:
    profile = make_profile(np.array([0.1, 0.2, 0.3, 0.4]))
    found = LEIP(Share(share)).estimate(rows, profile).prior
    np.testing.assert_allclose(found, references.leip(rows, profile.soft_prior, share), atol=1e-12)


@given(scope=scopes())
def test_em_is_certified_and_beats_textbook_em(
    scope: tuple[NDArray[np.float32], SourceProfile],
) -> None:
    rows, profile = scope
    source = profile.soft_prior
    found = EM().estimate(rows, profile)
    assert found.details["certified"]
    reached = references.log_likelihood(rows, source, found.prior)
    slow = references.log_likelihood(rows, source, references.em(rows, source, 100))
    assert reached >= slow - 1.1e-8
    # The certificate, from its definition.
    x = rows / source
    gradient = (x / (x @ found.prior)[:, None]).mean(axis=0)
    assert gradient.max() - 1 <= 1.1e-8


@given(scope=scopes(min_rows=128, max_rows=2000), weighted=st.booleans())
@settings(max_examples=60)
def test_em_of_rows_class_by_class_is_certified(
    scope: tuple[NDArray[np.float32], SourceProfile], weighted: bool
) -> None:
    # From 128 rows on passes go class by class, and the first of them are in float32.
    rows, profile = scope
    rng = np.random.default_rng(len(rows))
    times = rng.integers(1, 4, len(rows)) if weighted else np.ones(len(rows), np.int64)
    found = EM().estimate(rows, profile, weights=times if weighted else None)
    assert found.details["certified"]
    x = np.repeat(rows, times, axis=0) / profile.soft_prior
    gradient = (x / (x @ found.prior)[:, None]).mean(axis=0)
    assert gradient.max() - 1 <= 1.1e-8


@given(scope=scopes(), begin=st.integers(0, 5))
@settings(max_examples=50)
def test_em_finds_the_same_maximum_from_any_start(
    scope: tuple[NDArray[np.float32], SourceProfile], begin: int
) -> None:
    rows, profile = scope
    m = len(profile.classes)
    start = np.eye(m)[begin % m]
    cold = references.log_likelihood(rows, profile.soft_prior, EM().estimate(rows, profile).prior)
    warm = EM().estimate(rows, profile, start=start)
    assert warm.details["certified"]
    reached = references.log_likelihood(rows, profile.soft_prior, warm.prior)
    assert reached == pytest.approx(cold, abs=2.1e-8)


@pytest.mark.parametrize("n", [40_000, 300_000])
@pytest.mark.parametrize("alpha", [0.05, 1.0])
def test_em_of_long_input_is_certified(n: int, alpha: float) -> None:
    rng = np.random.default_rng(n)
    source = np.full(5, 0.2)
    labels = rng.choice(5, n, p=rng.dirichlet(np.full(5, alpha)))
    logits = 2.0 * (rng.normal(size=(n, 5)) + 2.0 * np.eye(5)[labels])
    rows = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = EM().estimate(rows.astype(np.float32), make_profile(source))
    assert found.details["certified"]


@given(scope=scopes())
@settings(max_examples=50)
def test_bbse_inverts_the_confusion(scope: tuple[NDArray[np.float32], SourceProfile]) -> None:
    rows, profile = scope
    joint = profile.validation.hard
    for soft in (True, False):
        labels = np.eye(len(joint))[rows.argmax(axis=1)]
        mean = rows.mean(axis=0, dtype=float) if soft else labels.mean(axis=0)
        weights = np.maximum(np.linalg.inv(joint) @ mean, 0)
        prior = weights * joint.sum(axis=0)
        found = BBSE(soft).estimate(rows, profile).prior
        np.testing.assert_allclose(found, prior / prior.sum(), atol=1e-6)


@given(scope=scopes(max_rows=20), size=st.floats(1e-4, 2.0))
@settings(max_examples=40)
def test_rlls_reaches_its_optimum(
    scope: tuple[NDArray[np.float32], SourceProfile], size: float
) -> None:
    rows, profile = scope
    joint = profile.validation.hard
    mean = rows.mean(axis=0, dtype=float)
    w = regularised_weights(joint, mean, size)
    assert w.min() >= 0
    value = np.linalg.norm(joint @ w - mean) + size * np.linalg.norm(w - 1)
    assert value <= references.rlls(joint, mean, size) + 1e-6


def test_rlls_regularisation_is_the_published_bound() -> None:
    # 3 · 0.01 · (2 log(2·10/0.05) / (3·500) + sqrt(2 log(2·10/0.05) / 500)), by hand
    assert regularisation(10, 500) == pytest.approx(0.0048838, abs=1e-6)


def test_counting_is_counting() -> None:
    rows = np.array([[0.6, 0.4], [0.6, 0.4], [0.3, 0.7]], np.float32)
    profile = make_profile(np.array([0.5, 0.5]))
    np.testing.assert_allclose(ClassifyAndCount().estimate(rows, profile).prior, [2 / 3, 1 / 3])
    np.testing.assert_allclose(MeanPosterior().estimate(rows, profile).prior, [0.5, 0.5])


def test_auto_takes_the_least_error_of_the_nearest_size() -> None:
    profile = make_profile(np.array([0.5, 0.5]))  # LEIP is better at 200 rows, EM at 1000
    rng = np.random.default_rng(0)
    either: dict[str, Estimator] = {"LEIP": LEIP(), "EM": EM()}
    for n, name in ((1, "LEIP"), (300, "LEIP"), (600, "EM"), (5000, "EM")):
        rows = rng.dirichlet([1.0, 1.0], n).astype(np.float32)
        estimate = Auto().estimate(rows, profile)
        assert estimate.details["estimator"] == name
        plain = either[name].estimate(rows, profile).prior
        np.testing.assert_array_equal(estimate.prior, plain)
        assert "replayed shifts" in str(estimate.details["reason"])


@pytest.mark.parametrize("seed", range(20))
def test_leip_places_its_threshold_among_many_unsure_rows(seed: int) -> None:
    # Tops below a quarter, many of them one float32 step apart.
    rng = np.random.default_rng(seed)
    m = 12
    rows = rng.dirichlet(np.full(m, 8.0), 1300).astype(np.float32)
    place = rng.random(1300) < 0.4
    near = (np.uint32(0x3E000000) + rng.integers(0, 6, 1300).astype(np.uint32)).view(np.float32)
    flat = np.minimum(rng.dirichlet(np.full(m, 200.0), 1300), 0.12)
    flat[:, 0] = near
    flat[:, 1:] *= ((1 - near) / flat[:, 1:].sum(axis=1))[:, None]
    rows[place] = flat[place].astype(np.float32)
    profile = make_profile(np.full(m, 1 / m))
    for share in (0.2, 0.6, 0.9):
        found = LEIP(Share(share)).estimate(rows, profile)
        tops = rows.max(axis=1).astype(float)
        assert found.details["threshold"] == pytest.approx(np.quantile(tops, 1 - share), abs=1e-12)
        np.testing.assert_allclose(
            found.prior, references.leip(rows, profile.soft_prior, share), atol=1e-12
        )


@pytest.mark.parametrize("few", [True, False])
def test_rows_of_no_weight_are_as_good_as_absent(few: bool) -> None:
    rng = np.random.default_rng(5)
    rows = rng.dirichlet(np.full(4, 0.4), 40_000).astype(np.float32)
    weights = rng.random(40_000)
    weights[::8] = 0.0
    if few:
        weights[3:] = 0.0
    profile = make_profile(np.array([0.1, 0.2, 0.3, 0.4]))
    for estimator in ALL:
        with_them = estimator.estimate(rows, profile, weights=weights)
        without = estimator.estimate(rows[weights > 0], profile, weights=weights[weights > 0])
        np.testing.assert_array_equal(with_them.prior, without.prior)
        assert with_them.n == np.count_nonzero(weights)


@given(scope=scopes(max_rows=40), data=st.data(), hard=st.booleans())
@settings(max_examples=60)
def test_weighted_leip_is_its_definition(
    scope: tuple[NDArray[np.float32], SourceProfile], data: st.DataObject, hard: bool
) -> None:
    rows, profile = scope
    weights = data.draw(st.lists(st.floats(0.01, 4), min_size=len(rows), max_size=len(rows)))
    share = data.draw(st.floats(0.05, 1.0))
    threshold: Any = data.draw(st.sampled_from([Share(share), Fixed(share)]))
    source = profile.hard_prior if hard else profile.soft_prior
    leip = LEIP(threshold, prior="hard" if hard else "soft")
    found = leip.estimate(rows, profile, weights=weights)
    cut = share if isinstance(threshold, Fixed) else None
    slow = references.weighted_leip(rows, source, np.array(weights), share, cut)
    np.testing.assert_allclose(found.prior, slow, atol=1e-9)


@given(scope=scopes(), data=st.data())
@settings(max_examples=40)
def test_counting_is_counting_with_weights(
    scope: tuple[NDArray[np.float32], SourceProfile], data: st.DataObject
) -> None:
    rows, profile = scope
    weights = data.draw(st.lists(st.floats(0.01, 4), min_size=len(rows), max_size=len(rows)))
    counted, meant = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    for row, weight in zip(rows, weights, strict=True):
        counted[int(np.argmax(row))] += weight / sum(weights)
        meant += row * weight / sum(weights)
    for estimator, slow in ((ClassifyAndCount(), counted), (MeanPosterior(), meant)):
        found = estimator.estimate(rows, profile, weights=weights).prior
        np.testing.assert_allclose(found, slow, atol=1e-6)


def test_leip_falls_back_to_the_mean_recall_and_says_so() -> None:
    joint = np.array([[0.5, 0.4], [0.0, 0.1]])  # recalls 1.0 and 0.2
    rows = np.random.default_rng(0).dirichlet([1.0, 1.0], 100).astype(np.float32)
    low = make_profile(np.array([0.5, 0.5]), np.array([[0.5, 0.49], [0.0, 0.01]]))
    fallen = LEIP().estimate(rows, low)
    assert "mean recall" in str(fallen.details["notes"])
    asked = LEIP("mean-recall").estimate(rows, low)
    np.testing.assert_array_equal(fallen.prior, asked.prior)
    assert LEIP().estimate(rows, make_profile(np.array([0.5, 0.5]), joint)).details["notes"] == ()


def test_leip_without_a_confident_row_says_so() -> None:
    rows = np.array([[0.6, 0.4], [0.4, 0.6]], np.float32)
    estimate = LEIP(Fixed(0.99)).estimate(rows, make_profile(np.array([0.5, 0.5])))
    assert "no row is confident" in str(estimate.details["notes"])
    assert estimate.details["buffered"] == 2
    assert estimate.prior.sum() == 1


def test_leip_row_whose_classes_were_never_counted_keeps_its_label() -> None:
    rows = np.array([[0.9, 0.1, 0.0], [0.9, 0.1, 0.0], [0.0, 0.25, 0.75]], np.float32)
    estimate = LEIP(Share(0.5)).estimate(rows, make_profile(np.full(3, 1 / 3)))
    np.testing.assert_allclose(estimate.prior, [2 / 3, 0, 1 / 3])
    assert "1 rows came with no class counted" in str(estimate.details["notes"])


def test_leip_takes_ties_in_order_of_arrival() -> None:
    profile = make_profile(np.array([0.5, 0.5]))
    sure = np.array([[0.9, 0.1], [0.1, 0.9]], np.float32)
    tied = np.array([[0.55, 0.45], [0.45, 0.55]], np.float32)
    for order in itertools.permutations(range(2)):
        rows = np.concatenate([sure, tied[list(order)]])
        slow = references.leip(rows, profile.soft_prior, 0.5)
        np.testing.assert_allclose(LEIP(Share(0.5)).estimate(rows, profile).prior, slow)


def test_leip_equals_quapy_where_that_is_defined() -> None:
    quapy = pytest.importorskip("quapy.method._liep", reason="the bench group has quapy")
    rng = np.random.default_rng(3)
    rows = rng.dirichlet(np.full(5, 0.3), 3000).astype(np.float32)
    profile = make_profile(rng.dirichlet(np.full(5, 20.0)))

    class Peer(quapy.LEIP):  # type: ignore[misc,name-defined]
        classes_ = np.arange(5)

    peer = Peer.__new__(Peer)
    peer.tau, peer.retain_fraction_, peer.count_smoothing = None, 0.8, 0.0
    peer.train_prevalence = profile.soft_prior
    theirs, _ = peer._leip(rows.astype(float))
    np.testing.assert_allclose(LEIP(Share(0.8)).estimate(rows, profile).prior, theirs)
