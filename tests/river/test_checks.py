"""River's own checks, one test each."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from river import base, forest, linear_model, multiclass, naive_bayes, preprocessing, tree
from river.checks import yield_checks
from stream_leip_connectors.river import LabelShiftClassifier, PosteriorAdapter

from stream_leip import EM, LEIP, SourceProfile, Tumbling, fit_profile

# What the features of River's data for transformers are called: the classes of the profile.
FEATURES = ["ordinal_date", "gallup", "ipsos", "morning_consult", "rasmussen", "you_gov"]


def log_reg() -> Any:
    return multiclass.OneVsRestClassifier(linear_model.LogisticRegression())


MODELS: dict[str, Callable[[], Any]] = {
    "OneVsRest(LogisticRegression)": log_reg,
    "GaussianNB": naive_bayes.GaussianNB,
    "HoeffdingTree": tree.HoeffdingTreeClassifier,
    "ARFClassifier": lambda: forest.ARFClassifier(n_models=3, seed=1),
}


def profile() -> SourceProfile:
    rng = np.random.default_rng(0)
    labels = rng.integers(len(FEATURES), size=300)
    logits = 3.0 * np.eye(len(FEATURES))[labels] + rng.normal(size=(300, len(FEATURES)))
    return fit_profile(logits, labels, FEATURES)


def pieces() -> Iterator[tuple[str, base.Estimator]]:
    # With default settings the first fit falls late into the checks of memory.
    yield "as made", LabelShiftClassifier(naive_bayes.GaussianNB())
    yield "OneVsRest as made", LabelShiftClassifier(log_reg())
    for name, make in MODELS.items():
        # So eager that the short streams of the checks refit it many times.
        yield name, LabelShiftClassifier(make(), labelled=60, refit_every=20)
    yield (
        "observing",
        LabelShiftClassifier(
            naive_bayes.GaussianNB(), Tumbling(count=30), EM(), 60, 20, True, seed=3
        ),
    )
    pipeline = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    yield "binary pipeline", LabelShiftClassifier(pipeline, labelled=60, refit_every=20)
    yield "PosteriorAdapter", PosteriorAdapter(profile())
    yield "PosteriorAdapter, LEIP", PosteriorAdapter(profile(), Tumbling(count=30), LEIP())


def checks() -> Iterator[Any]:
    for name, piece in pieces():
        assert piece._unit_test_skips() == set()
        for number, check in enumerate(yield_checks(piece)):
            yield pytest.param(piece, check, id=f"{name}-{number}-{check.__name__}")


# River's LogisticRegression overflows on features that are not scaled; its sigmoid is right all
# the same.
@pytest.mark.filterwarnings("ignore:overflow encountered in exp:RuntimeWarning")
@pytest.mark.parametrize(("piece", "check"), list(checks()))
def test_river_check(piece: Any, check: Callable[[Any], None]) -> None:
    check(piece.clone())
