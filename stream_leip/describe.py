"""From the rows in scope to what an update says of them."""

from typing import Any

from stream_leip.adapt import mix_in, shrink
from stream_leip.alarm import Alarm
from stream_leip.arrays import Vector
from stream_leip.assumption import check, moments, spend
from stream_leip.estimators import EM, LEIP, Auto, Estimate, Estimator
from stream_leip.estimators.auto import choose, effective_size
from stream_leip.interval import interval, mixture_interval, validation_variance
from stream_leip.pane import Pane
from stream_leip.profile import SourceProfile
from stream_leip.windows import Scope


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
    pane, weights = scope.pane, scope.weights
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
    leip = LEIP().estimate_ranked(pane, profile, weights)
    start = None if scope.tracked is None else scope.tracked.prior
    em = EM().estimate_ranked(pane, profile, weights, start)
    size = effective_size(len(pane), weights if len(weights) else None)
    name, reason, chosen = _chosen(estimator, pane, profile, weights, size, leip, em)
    events, details = pane.events, leip.details
    found: dict[str, Any] = {
        "first": int(events.min()),
        "last": int(events.max()),
        "start": pane.start if scope.start is None else scope.start,
        "end": pane.end if scope.end is None else scope.end,
        "n": len(pane),
        "estimator": name,
        "reason": reason,
        "leip": leip.prior,
        "em": em.prior,
        "threshold": details["threshold"],
        "confident": details["confident"],
        "buffered": details["buffered"],
        "thinned": pane.seen - len(pane),
    }
    tracked = scope.tracked
    if tracked is None:
        found["prior"], found["weights"] = chosen.prior, chosen.weights
        found["adapting_prior"] = shrink(chosen.prior, pane, weights, size, profile)
        if level is not None:
            points = leip.prior, chosen.prior
            found["low"], found["high"] = interval(pane, profile, weights, em.prior, level, *points)
    else:
        source = profile.soft_prior
        found["prior"], found["weights"] = tracked.prior, tracked.prior / source
        found["adapting_prior"] = mix_in(tracked.prior, tracked.memory, source)
        found["memory"] = tracked.memory
        found["reason"] = f"experts with a memory of about {tracked.memory:.0f} events; {reason}"
        if level is not None:
            extra = validation_variance(pane, profile, tracked.prior)
            found["low"], found["high"] = mixture_interval(tracked, extra, level)
    if window is not None:
        seen = moments(pane if scope.recent is None else scope.recent, profile)
        found["check"] = check(seen, profile, em.prior, spend(window)).to_dict()
    return found


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
    if isinstance(estimator, Auto):
        name, reason = choose(profile, size)
        return name, reason, leip if name == "LEIP" else em
    name, reason = type(estimator).__name__, "chosen by the user"
    if estimator == LEIP():
        return name, reason, leip
    if estimator == EM():
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
