"""Statistical promises, on real classifier outputs."""

import numpy as np
import pytest

from benchmarks.adapting import SCENARIOS, measure
from benchmarks.datasets import Data
from benchmarks.datasets import load as load_scored
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


@pytest.mark.parametrize("data", list(Data), ids=str)
def test_adapting_pays_under_shift_and_costs_nothing_without(data: Data) -> None:
    scored = load_scored(data)
    profile = fit_profile(scored.val_logits[:2000], scored.val_labels[:2000])
    for scenario in SCENARIOS:
        found = measure(scored, profile, scenario, seeds=4)
        for name, figures in found.items():
            if name in ("unadapted", "true mix"):
                continue
            points = float((figures - found["unadapted"]).mean(axis=0)[0])
            if scenario == "no shift":
                assert points > -0.1
            elif scenario == "strong shift":
                assert points > 1.0
