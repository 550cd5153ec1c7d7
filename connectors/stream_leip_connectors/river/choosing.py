"""Arguments that all of River's pieces take: checked when given, shown in short."""

import inspect
from typing import Any

import numpy as np

from stream_leip import (
    EM,
    LEIP,
    Adaptive,
    Auto,
    Estimator,
    InputError,
    SourceProfile,
    fit_profile,
)
from stream_leip.windows import Window

_NAMED: dict[str, Estimator] = {"auto": Auto(), "LEIP": LEIP(), "EM": EM()}


def check_profile(profile: object) -> None:
    """Refuse what is no profile."""
    if not isinstance(profile, SourceProfile):
        raise InputError(
            f"profile: a {type(profile).__name__} is none; use fit_profile(…) or "
            "SourceProfile.load(path)"
        )


def choose_window(window: Window | None) -> Window:
    """The window asked for, or adaptive memory; River's verbs have no time to give."""
    if window is None:
        return Adaptive()
    if isinstance(window, type) or not hasattr(window, "open"):
        raise InputError(f"window: {window!r} is no window; use Adaptive(), say")
    if window.needs_time:
        raise InputError(
            f"window: {window!r} goes by event time, which River's calls do not have; "
            "use one by count, such as Tumbling(count=1000)"
        )
    return window


def choose_estimator(estimator: str | Estimator) -> Estimator:
    """The estimator of that name, or the one given."""
    if not isinstance(estimator, str):
        return estimator
    if estimator not in _NAMED:
        raise InputError(
            f"estimator: {estimator!r} is unknown; use {', '.join(_NAMED)}, or an estimator"
        )
    return _NAMED[estimator]


def represent(piece: Any) -> str:
    """A piece with its arguments, as River shows its own; profiles in short."""
    lines = [f"{type(piece).__name__} ("]
    for name in inspect.signature(type(piece)).parameters:
        value = getattr(piece, name)
        if isinstance(value, SourceProfile):
            value = f"SourceProfile({len(value.classes)} classes, {value.validation.n} rows)"
        elif isinstance(value, str):
            value = f'"{value}"'
        lines.append(f"  {name}={value}")
    return "\n".join([*lines, ")"])


def example_profile() -> SourceProfile:
    """A small one, for River's checks of what they can make themselves."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=100)
    logits = 2.0 * np.eye(2)[labels] + rng.normal(size=(100, 2))
    return fit_profile(logits, labels, ["no", "yes"])
