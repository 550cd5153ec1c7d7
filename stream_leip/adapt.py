"""Posteriors under another prior."""

import numpy as np

from stream_leip._kernels.likelihood import gain
from stream_leip.arrays import Rows, Vector
from stream_leip.estimators.estimate import Ranked
from stream_leip.profile import SourceProfile

# As many events of the source are mixed into an estimate before it adapts predictions.
PSEUDO_EVENTS = 10.0
# How many times the noise that no shift would give is taken off.
NOISE_FACTOR = 1.0


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


def mix_in(prior: Vector, size: float, source: Vector) -> Vector:
    """An estimate from `size` events with pseudo-events of the source mixed in.

    A class that few events did not show has an estimate of zero or near it, and adapting with that
    would forbid it for good.
    """
    mixed: Vector = (size * prior + PSEUDO_EVENTS * source) / (size + PSEUDO_EVENTS)
    return mixed


def shrink(
    prior: Vector, pane: Ranked, weights: Vector, size: float, profile: SourceProfile
) -> Vector:
    """The estimate from a pane, drawn towards the source prior: the one to adapt predictions with.

    Pseudo-events are mixed in, and what is left of the
    difference counts as far as it is more than noise (as in James and Stein): twice the gain in
    log-likelihood over the source is, without shift, a chi-squared variable of m - 1 degrees, wider
    by what the validation set's own size adds.
    """
    source = profile.soft_prior
    mixed = mix_in(prior, size, source)
    gained = 2.0 * size * gain(pane.rows, pane.classes, source, weights, mixed, source)
    noise = (len(source) - 1) * (1.0 + size / profile.validation.n)
    share = max(0.0, 1.0 - NOISE_FACTOR * noise / gained) if gained > 0.0 else 0.0
    return source + share * (mixed - source)
