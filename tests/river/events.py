"""Small streams and profiles for the tests of River's pieces."""

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from stream_leip import SourceProfile, fit_profile

NAMES = ["ant", "bee", "cat"]


def drifting(
    n: int, late: tuple[float, ...] = (1, 1, 8), seed: int = 1
) -> Iterator[tuple[dict[Any, Any], str]]:
    """Two features of three classes, evenly mixed at first, and otherwise from halfway on."""
    rng = random.Random(seed)
    for i in range(n):
        y = rng.choices("abc", (1, 1, 1) if i < n / 2 else late)[0]
        yield {"u": rng.gauss("abc".index(y), 0.8), "v": rng.gauss(y == "b", 0.8)}, y


def posteriors(labels: Any, seed: int, strength: float = 3.0) -> Any:
    """Calibrated posteriors of three classes under an even mix."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(len(labels), 3)) + strength * np.eye(3)[labels]
    odds = np.exp(strength * x)
    return odds / odds.sum(axis=1, keepdims=True)


def draw(n: int, mix: tuple[float, ...], seed: int) -> Any:
    """Posteriors of events whose labels follow a mix."""
    labels = np.random.default_rng(seed).choice(3, size=n, p=mix)
    return posteriors(labels, seed + 1)


@cache
def profile(n: int = 600) -> SourceProfile:
    """Of probabilities by name."""
    labels = np.random.default_rng(0).integers(3, size=n)
    return fit_profile(posteriors(labels, 1), labels, NAMES, kind="probabilities")
