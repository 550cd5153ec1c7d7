"""Hypothesis strategies for the domain's own objects."""

from functools import lru_cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from stream_leip import SourceProfile
from stream_leip.calibration import Calibrator
from stream_leip.evidence import gather
from stream_leip.profile import ReplayErrors
from stream_leip.validation import Evidence, Validation


def make_profile(
    soft_prior: NDArray[Any], confusion: NDArray[Any] | None = None, n: int = 1000
) -> SourceProfile:
    """A profile with a given soft prior, and joint confusion (the diagonal one unless given)."""
    m = len(soft_prior)
    joint = np.diag(soft_prior).astype(float) if confusion is None else confusion
    calibrator = Calibrator("none", np.ones(m), np.zeros(m))
    return SourceProfile(
        tuple(f"c{j}" for j in range(m)),
        "probabilities",
        calibrator,
        Validation(n, joint, joint, (0.0, 0.0), (0.0, 0.0)),
        ReplayErrors((200, 1000), {"LEIP": (0.1, 0.3), "EM": (0.2, 0.2)}),
        known=make_evidence(tuple(map(float, soft_prior))),
    )


@lru_cache(maxsize=64)
def make_evidence(soft_prior: tuple[float, ...]) -> Evidence:
    """What validation rows of a fair classifier would have told, some of every class."""
    prior, m = np.array(soft_prior), len(soft_prior)
    rng = np.random.default_rng(m)
    labels = np.repeat(np.arange(m), np.ceil(min(20 * m, 400) * prior).astype(int) + 2)
    logits = 3.0 * np.eye(m)[labels] + rng.normal(size=(len(labels), m)) + np.log(prior)
    rows = np.exp(logits - logits.max(axis=1, keepdims=True))
    rows /= rows.sum(axis=1, keepdims=True)
    calibrator = Calibrator("none", np.ones(m), np.zeros(m))
    return gather(rows.astype(np.float32), labels, np.log(rows), calibrator, seed=0)


@st.composite
def priors(draw: st.DrawFn, m: int) -> NDArray[np.float64]:
    """A prior in which every class has some share."""
    raw = draw(st.lists(st.integers(1, 50), min_size=m, max_size=m))
    return np.array(raw) / sum(raw)


@st.composite
def profiles(draw: st.DrawFn, m: int) -> SourceProfile:
    """A profile whose confusion is mostly diagonal."""
    prior = draw(priors(m))
    error = draw(st.floats(0.0, 0.3))
    recall = np.full((m, m), error / m) + (1.0 - error) * np.eye(m)
    return make_profile(prior, recall * prior)


@st.composite
def row_arrays(
    draw: st.DrawFn, m: int, min_rows: int = 1, max_rows: int = 80
) -> NDArray[np.float32]:
    """Rows from near one-hot to flat, some with exact zeros."""
    n = draw(st.integers(min_rows, max_rows))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sharpness = draw(st.sampled_from([0.05, 0.3, 1.0, 5.0]))
    rows = rng.gamma(sharpness, size=(n, m)) + 1e-300
    if draw(st.booleans()):
        rows[rng.random((n, m)) < 0.3] = 0.0
        rows[np.arange(n), rng.integers(m, size=n)] += 0.1
    return np.asarray(rows / rows.sum(axis=1, keepdims=True), np.float32)


@st.composite
def scopes(
    draw: st.DrawFn, min_rows: int = 1, max_rows: int = 80
) -> tuple[NDArray[np.float32], SourceProfile]:
    """Rows and a profile of as many classes."""
    m = draw(st.integers(2, 6))
    return draw(row_arrays(m, min_rows, max_rows)), draw(profiles(m))
