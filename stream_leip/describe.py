"""From the rows in scope to what an update says of them."""

from typing import Any

from stream_leip.adapt import mix_in, shrink
from stream_leip.alarm import Alarm
from stream_leip.arrays import Vector
from stream_leip.assumption import check, moments, spend
from stream_leip.estimators import EM, LEIP, Auto, Estimate, Estimator
from stream_leip.estimators.auto import choose, effective_size
from stream_leip.estimators.estimate import NO_WEIGHTS
from stream_leip.interval import interval, mixture_interval, validation_variance
from stream_leip.pane import Pane
from stream_leip.profile import SourceProfile
from stream_leip.tracked import Recent, Tracked
from stream_leip.windows import Scope

# How near to its maximum EM's likelihood is brought where memory adapts, in units of what noise
# makes of it: half a unit a class, over the rows.
_CLOSE = 1e-3


def describe(
    scope: Scope,
    profile: SourceProfile,
    estimator: Estimator,
    level: float | None,
    window: int | None,
) -> dict[str, Any]:
    """What an update says of a scope: all of its fields that do not depend on the stream before.

    `level` is that of the intervals, None for none; `window` counts the windows that the assumption
    check is spent on, this one included, None for no check.
    """
    pane = scope.pane
    if pane is None:
        return {
            "first": None,
            "last": None,
            "start": scope.start,
            "end": scope.end,
            "n": 0,
            "estimator": "none",
            "reason": "no rows in scope",
        }
    if isinstance(pane, Pane):
        found = _windowed(pane, scope, profile, estimator, level)
    else:
        assert scope.tracked is not None
        found = _tracked(pane, scope.tracked, profile, estimator, level)
        found |= {"start": scope.start, "end": scope.end}
    if window is not None:
        seen = moments(pane if scope.recent is None else scope.recent, profile)
        found["check"] = check(seen, profile, found["em"], spend(window)).to_dict()
    return found


def _windowed(
    pane: Pane, scope: Scope, profile: SourceProfile, estimator: Estimator, level: float | None
) -> dict[str, Any]:
    """What is said of the rows of a window: the prior is the estimator's."""
    weights = scope.weights
    leip = LEIP().estimate_ranked(pane, profile, weights)
    em = EM().estimate_ranked(pane, profile, weights)
    size = effective_size(len(pane), weights if len(weights) else None)
    name, reason, chosen = _chosen(estimator, pane, profile, weights, size, leip, em)
    found = _counted(pane.bounds, leip, em.prior)
    found |= {
        "start": pane.start if scope.start is None else scope.start,
        "end": pane.end if scope.end is None else scope.end,
        "estimator": name,
        "reason": reason,
        "thinned": pane.seen - len(pane),
        "prior": chosen.prior,
        "weights": chosen.weights,
        "adapting_prior": shrink(chosen.prior, pane, weights, size, profile),
    }
    if level is not None:
        points = leip.prior, chosen.prior
        found["low"], found["high"] = interval(pane, profile, weights, em.prior, level, *points)
    return found


def _tracked(
    recent: Recent,
    tracked: Tracked,
    profile: SourceProfile,
    estimator: Estimator,
    level: float | None,
) -> dict[str, Any]:
    """What is said where memory adapts: the prior is the tracker's, LEIP and EM those of a rung."""
    leip = LEIP().estimate_arrived(recent, profile)
    em = tracked.rung
    if not tracked.by_em:
        close = max(EM().tolerance, _CLOSE * len(profile.classes) / len(recent))
        em = EM(tolerance=close).estimate_ranked(recent, profile, NO_WEIGHTS, em).prior
    name, reason = _name_of(estimator, profile, len(recent))
    source = profile.soft_prior
    found = _counted(recent.bounds, leip, em)
    found |= {
        "estimator": name,
        "reason": f"experts with a memory of about {tracked.memory:.0f} events; {reason}",
        "thinned": 0,
        "prior": tracked.prior,
        "weights": tracked.prior / source,
        "adapting_prior": mix_in(tracked.prior, tracked.memory, source),
        "memory": tracked.memory,
    }
    if level is not None:
        extra = validation_variance(recent, profile, tracked.prior)
        found["low"], found["high"] = mixture_interval(tracked, extra, level)
    return found


def _counted(bounds: tuple[int, int], leip: Estimate, em: Vector) -> dict[str, Any]:
    """What LEIP and EM say, the same for every window."""
    return {
        "first": bounds[0],
        "last": bounds[1],
        "n": leip.n,
        "leip": leip.prior,
        "em": em,
        "threshold": leip.details["threshold"],
        "confident": leip.details["confident"],
        "buffered": leip.details["buffered"],
    }


def _name_of(estimator: Estimator, profile: SourceProfile, size: float) -> tuple[str, str]:
    """The estimator's name, and why it is that one."""
    if isinstance(estimator, Auto):
        return choose(profile, size)
    return type(estimator).__name__, "chosen by the user"


def _chosen(
    estimator: Estimator,
    pane: Pane,
    profile: SourceProfile,
    weights: Vector,
    size: float,
    leip: Estimate,
    em: Estimate,
) -> tuple[str, str, Estimate]:
    """The estimator's name, why it is that one, and what it found."""
    name, reason = _name_of(estimator, profile, size)
    auto = isinstance(estimator, Auto)
    if estimator == LEIP() or (auto and name == "LEIP"):
        return name, reason, leip
    if estimator == EM() or auto:
        return name, reason, em
    if isinstance(estimator, LEIP | EM):
        return name, reason, estimator.estimate_ranked(pane, profile, weights)
    given = weights if len(weights) else None
    return name, reason, estimator.estimate(pane.rows, profile, weights=given)


def describe_alarm(alarm: Alarm, profile: SourceProfile) -> dict[str, Any]:
    """An alarm as an update says it."""
    return {
        "value": alarm.value,
        "threshold": alarm.threshold,
        "warning": alarm.warning,
        "raised": alarm.raised,
        "since": alarm.raised_at,
        "classes": [
            {
                "class": _name(move.group, profile),
                "direction": "up" if move.deviations > 0 else "down",
                "deviations": abs(move.deviations),
            }
            for move in alarm.moves
        ],
        "null": alarm.null.tolist(),
        "nulls": alarm.nulls,
    }


def _name(group: int, profile: SourceProfile) -> str:
    """The class of a group, or how many it has."""
    members = (profile.evidence.features.groups == group).nonzero()[0]
    if len(members) == 1:
        return profile.classes[int(members[0])]
    return f"{len(members)} smaller classes"
