"""Ways to name a class mix in a schedule."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from stream_leip.arrays import Vector
from stream_leip.checks import check_above_zero, check_share
from stream_leip.errors import InputError


@dataclass(frozen=True)
class Dirichlet:
    """A mix drawn anew: small `alpha` gives few large classes, large `alpha` equal ones.

    Parameters
    ----------
    alpha
        The concentration, the same for each class.

    Examples
    --------
    >>> from stream_leip.replay import Dirichlet
    >>> Dirichlet(alpha=10.0)
    Dirichlet(alpha=10.0)
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero("alpha", self.alpha)


# Shares in class order; shares of some classes by their place, the others keeping their
# proportions; a draw; or None for the mix that the stretch begins with.
Mix: TypeAlias = Vector | Sequence[float] | Mapping[int, float] | Dirichlet | None


def resolve(name: str, mix: Mix, start: Vector, rng: np.random.Generator) -> Vector:
    """The mix as shares in class order."""
    m = len(start)
    if mix is None:
        return start
    if isinstance(mix, Dirichlet):
        return rng.dirichlet(np.full(m, mix.alpha))
    if isinstance(mix, Mapping):
        return _with_shares(name, mix, start)
    return check_mix(name, mix, m)


def check_mix(name: str, mix: Vector | Sequence[float], m: int) -> Vector:
    """Shares of `m` classes; InputError if they are none."""
    try:
        shares = np.asarray(mix, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: {mix!r} is no class mix; give {m} shares") from error
    if shares.shape != (m,):
        raise InputError(f"{name}: {shares.size} shares for {m} classes; give one for each class")
    if not (np.isfinite(shares).all() and (shares >= 0).all()):
        odd = float(shares[~(np.isfinite(shares) & (shares >= 0))][0])
        raise InputError(f"{name}: the share {odd:g} is none; use numbers from 0 to 1")
    if abs(shares.sum() - 1.0) > 1e-6:
        raise InputError(f"{name}: the shares sum to {shares.sum():.6g}, not 1; divide by that")
    return np.asarray(shares / shares.sum())


def check_class(name: str, place: object, m: int) -> int:
    """The place of a class among `m`; negative ones count from the end."""
    whole = isinstance(place, int | np.integer) and not isinstance(place, bool)
    if not whole or not -m <= int(place) < m:  # type: ignore[call-overload]
        raise InputError(f"{name}: {place!r} is no class; use its place, 0 to {m - 1}")
    return int(place) % m  # type: ignore[call-overload, no-any-return]


def _with_shares(name: str, given: Mapping[int, float], start: Vector) -> Vector:
    m = len(start)
    if not given:
        raise InputError(f"{name}: {{}} names no class; use {{0: 0.5}}, say")
    places = [check_class(name, place, m) for place in given]
    for share in given.values():
        check_share(name, share)
    named, rest = float(sum(given.values())), start.copy()
    rest[places] = 0.0
    if named > 1.0 + 1e-9 or len(set(places)) < len(places):
        raise InputError(
            f"{name}: {dict(given)!r}; name a class once, with shares of sum at most 1"
        )
    left = max(0.0, 1.0 - named)
    if left > 1e-9:
        if rest.sum() <= 0:
            raise InputError(f"{name}: {dict(given)!r} leaves {left:g} to classes of no share")
        rest *= left / rest.sum()
    else:
        rest[:] = 0.0
    rest[places] = list(given.values())
    return np.asarray(rest / rest.sum())
