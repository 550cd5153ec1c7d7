"""Posteriors under another prior."""

import numpy as np

from stream_leip.arrays import Rows, Vector

# As many events of the source are mixed into an estimate before it adapts predictions.
PSEUDO_EVENTS = 10.0


def adapt(rows: Rows, prior: Vector, source: Vector) -> Rows:
    """Rows made under the source prior, as they are under `prior`.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip.adapt import adapt
    >>> rows = np.array([[0.5, 0.5]], np.float32)
    >>> adapt(rows, np.array([0.9, 0.1]), np.array([0.5, 0.5]))
    array([[0.9, 0.1]], dtype=float32)
    """
    updated = rows * (prior / source)
    updated /= updated.sum(axis=1, keepdims=True)
    return np.asarray(updated, np.float32)


def shrink(prior: Vector, n: float, source: Vector) -> Vector:
    """An estimate from `n` rows with some pseudo-events of the source mixed in.

    A class that a small window did not see has an estimate of zero, and adapting with that would
    forbid it for good.
    """
    return (n * prior + PSEUDO_EVENTS * source) / (n + PSEUDO_EVENTS)
