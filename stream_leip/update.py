"""The update: what is emitted when a window ends."""

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import numpy as np

from stream_leip.arrays import Vector

SCHEMA = 1


@dataclass(frozen=True, eq=False)
class Update:
    """The class mix of the rows in scope, and what goes with it.

    Parameters
    ----------
    sequence
        Counts the updates of a stream, from 0.
    first, last
        Numbers of the first and last event in scope, from 0; None where there is none.
    start, end
        Bounds in event time, epoch seconds: of the window where windows are by time, else of the
        events; None where events have no time.
    n
        Rows in scope.
    classes
        Names, in the order of everything that has an entry for each class.
    estimator, reason
        Which estimator `prior` is from, and why.
    prior
        The estimated mix; None where nothing is in scope, as all that follows from it.
    weights
        `prior` over the source prior.
    adapting_prior
        The estimate shrunk towards the source prior: the one to adapt predictions with.
    leip, em
        The mix by LEIP and by EM; one of them is `prior`, unless another estimator was chosen.
        Where memory adapts, of the window nearest to it, EM to hundredths of its own noise.
    threshold, confident, buffered
        LEIP's threshold, its confident-set counts, and the size of its low-confidence buffer.
    bad, late, thinned
        Events refused and events too late, since the stream began; rows in scope left out by the
        cap.
    key
        The key of the stream, where it has one.
    low, high
        Interval of each class's share; None where none was asked for.
    memory
        How many events back the estimate looks, where memory adapts; `n` and what is said of LEIP
        and EM are those of the last 50, 100, 200, … rows, whichever is nearest to it.
    changed_at
        Before which event the last change was, by the alarm's estimate.
    alarm
        `value` and `threshold`, logarithms; `warning` (a change is likely), `raised` (it is proven)
        and `since` which event; `classes` that moved, most first, with `direction` and
        `deviations`; `null`, the mix that "no change" means, and `nulls`, the how-manieth it is (it
        is made anew as more is known).
    check
        Whether more than the class mix changed: `p`, `flagged`, `validation_share` (of the
        uncertainty), and a `message` for people.
    """

    sequence: int
    first: int | None
    last: int | None
    start: float | None
    end: float | None
    n: int
    classes: tuple[str, ...]
    estimator: str
    reason: str
    prior: Vector | None = None
    weights: Vector | None = None
    adapting_prior: Vector | None = None
    leip: Vector | None = None
    em: Vector | None = None
    threshold: float | None = None
    confident: Vector | None = None
    buffered: int | None = None
    bad: int = 0
    late: int = 0
    thinned: int = 0
    key: str | None = None
    low: Vector | None = None
    high: Vector | None = None
    memory: float | None = None
    changed_at: int | None = None
    alarm: dict[str, Any] | None = None
    check: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def to_dict(self) -> dict[str, Any]:
        """The update as plain JSON values, with its schema's version."""
        plain = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"schema": SCHEMA, **plain}

    def __str__(self) -> str:
        scope = f"update {self.sequence}: "
        if self.memory is None:
            scope += f"{self.n} rows"
        else:
            scope += f"event {self.last}, memory {self.memory:.0f}"
        if self.start is not None and self.end is not None:
            scope += f", {_clock(self.start)} to {_clock(self.end)}"
        if self.prior is None:
            return f"{scope}, nothing to estimate"
        alarm = f"; {self.alarm_words}" if self.alarm_words else ""
        return f"{scope}, {self.estimator}: {self.mix_words}{alarm}"

    @property
    def mix_words(self) -> str:
        """The largest classes, each with its share."""
        if self.prior is None:
            return "nothing to estimate"
        largest = np.argsort(-self.prior, kind="stable")[:5]
        mix = ", ".join(f"{self.classes[j]} {self.prior[j]:.3f}" for j in largest)
        return mix + (", …" if len(self.prior) > 5 else "")

    @property
    def alarm_words(self) -> str:
        """What there is to say of the alarm, if anything."""
        if self.alarm is None or not self.alarm["warning"]:
            return ""
        word = "alarm" if self.alarm["raised"] else "warning"
        moved = ", ".join(f"{move['class']} {move['direction']}" for move in self.alarm["classes"])
        return f"{word}: changed at event {self.changed_at} ({moved})"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _clock(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")
