"""Statistical promises, on real classifier outputs."""

import numpy as np
import pytest

from stream_leip import EM, LEIP, Auto, Estimator, SourceProfile, fit_profile
from tests.data import load, validation

pytestmark = pytest.mark.slow

BOTH: dict[str, Estimator] = {"LEIP": LEIP(), "EM": EM(), "auto": Auto()}


def errors(profile: SourceProfile, name: str, n: int, draws: int) -> dict[str, float]:
    """Mean total variation of each estimator over Dirichlet shifts of the test rows."""
    data = load(name)
    rng = np.random.default_rng(n)
    labels = data["test_labels"].astype(np.int64)
    rows = profile.rows(data["test_logits"])
    sums = dict.fromkeys(BOTH, 0.0)
    for draw in range(draws):
        prior = rng.dirichlet(np.full(10, (0.1, 1.0, 10.0)[draw % 3]))
        weight = (prior / np.bincount(labels))[labels]
        drawn = rows[rng.choice(len(rows), n, p=weight / weight.sum())]
        for who, estimator in BOTH.items():
            found = estimator.estimate(drawn, profile).prior
            sums[who] += 0.5 * float(np.abs(found - prior).sum()) / draws
    return sums


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
@pytest.mark.parametrize("validation_rows", [500, 2000, 8000])
def test_auto_is_near_the_better_of_leip_and_em(name: str, validation_rows: int) -> None:
    profile = fit_profile(*validation(name, validation_rows))
    regrets = []
    for n in (200, 1000, 5000):
        found = errors(profile, name, n, draws=60)
        regrets.append(found["auto"] / min(found["LEIP"], found["EM"]))
    assert np.mean(regrets) < 1.12


@pytest.mark.parametrize("name", ["mnist_mlp", "cifar10_resnet20"])
def test_error_falls_as_rows_grow(name: str) -> None:
    profile = fit_profile(*validation(name, 8000))
    by_size = [errors(profile, name, n, draws=30)["EM"] for n in (100, 1000, 10_000)]
    assert by_size[0] > 2 * by_size[1] > 3 * by_size[2]


def test_a_profile_of_ten_thousand_rows_is_stable_in_its_choice() -> None:
    scores, labels = validation("cifar10_resnet20", 10_000)
    for seed in range(3):
        replay = fit_profile(scores, labels, seed=seed).replay
        assert [replay.best(n) for n in replay.sizes] == ["EM"] * 3  # a weak classifier
