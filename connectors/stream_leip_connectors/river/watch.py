"""The monitor of a model that learns: it keeps its memory when the profile is made anew."""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stream_leip import Estimator, Monitor, Update
from stream_leip._kernels.mixture import PANE
from stream_leip.arrays import Matrix, Vector
from stream_leip.entrance import Batch
from stream_leip.profile import SourceProfile
from stream_leip.windows import Window
from stream_leip_connectors.river.trust import Forecast, share
from stream_leip_connectors.river.weighing import Weighing, floored


class Watch:
    """Follows the mix of unlabelled events, through one whole profile after the other.

    Between them the profile is only refitted. A row is then made by the newest calibrator, and
    told relative to the source of the monitor's own profile, so that rows of all fits go together.

    Parameters
    ----------
    profile
        A whole one.
    labels
        Its classes, as the model names them.
    window, estimator
        Of the monitor.
    most
        How many events are told to the next monitor.
    whole
        The how-manieth whole profile it is.
    against
        What labels hold against adapting.
    forecast
        What adapting would do to hits.
    early
        How many events came before the first watch.
    """

    def __init__(
        self,
        profile: SourceProfile,
        labels: list[Hashable],
        window: Window,
        estimator: str | Estimator,
        most: int,
        whole: int,
        against: float,
        forecast: Forecast,
        early: int = 0,
    ) -> None:
        self.labels = labels
        self.whole = whole
        self.monitor = Monitor(profile, window, estimator)
        self.last: Update | None = None
        self.events = 0
        self._most = most
        self._recent: Matrix = np.zeros((0, len(labels)))
        # What the monitor's own counts began at.
        self._first = early
        self._early = early
        self._sequence = 0
        self._emitted = 0
        self.follow(profile, against, forecast)

    def follow(self, profile: SourceProfile, against: float, forecast: Forecast) -> None:
        """Go on with a profile that was refitted, and with what its labels say of adapting."""
        self._against = against
        self._forecast = forecast
        self._into_row = Weighing(profile, self.labels, self.monitor.profile.soft_prior)
        self._profile = profile
        self._weigh()

    def _weigh(self) -> None:
        self.prior: Vector = self.monitor.adapting_prior
        self.adapted = Weighing(self._profile, self.labels, self.prior)
        factors = np.array(list(self.adapted.factors.values()))
        self.trust = share(max(self._against, self._forecast.against(factors, self.prior)))

    def observe(self, scores: Mapping[Any, float]) -> None:
        """Take an unlabelled event."""
        row = self._into_row.row(scores)
        if row is None:
            return
        self._make_room(self.events + 1)
        self._recent[self.events % self._most] = [scores.get(name, 0.0) for name in self.labels]
        self.events += 1
        updates = self.monitor.take_one(np.array([row], np.float32), None)
        if updates:
            self._emitted = updates[-1].sequence + 1
            self._note(updates[-1])
        if updates or self.monitor.events % PANE == 0:
            self._weigh()

    def observe_many(self, scores: Matrix, labels: list[Any]) -> None:
        """Take unlabelled events, of which the scores are in the order of `labels`."""
        place = {label: j for j, label in enumerate(labels)}
        known = np.zeros((len(scores), len(self.labels)))
        for j, label in enumerate(self.labels):
            if label in place:
                known[:, j] = scores[:, place[label]]
        rows, fine = self._into_row.rows(known)
        kept = known[fine][-self._most :]
        self.events += len(rows)
        self._make_room(self.events)
        self._recent[np.arange(self.events - len(kept), self.events) % self._most] = kept
        for _, update in self.monitor.take(Batch(rows, None, np.arange(len(rows)), len(rows))):
            self._emitted = update.sequence + 1
            self._note(update)
        self._weigh()

    def _make_room(self, events: int) -> None:
        """Grow by doubling, as events come: many watches are asked before they are told much."""
        held, needed = len(self._recent), min(events, self._most)
        if held < needed:
            grown = np.zeros((min(max(2 * held, needed, PANE), self._most), len(self.labels)))
            grown[:held] = self._recent
            self._recent = grown

    def succeed(self, before: "Watch") -> None:
        """Take over from the watch of an older profile, with what it saw last."""
        self._sequence = before._sequence + before._emitted
        self._first = self._early = before._early + before.events
        self.last = before.last
        # Scores from before a class was known say nothing of it: then memory begins anew.
        if before.labels == self.labels and before.events:
            self.events, self._early = before.events, before._early
            self._recent = before._recent
            recent = before.recent()
            self._first -= len(recent)
            self._emitted = len(self.monitor.update_many(floored(recent)))
            self._note(self.monitor.estimate())
            self._weigh()

    def recent(self) -> Matrix:
        """The scores of the last events, oldest first."""
        if self.events < self._most:
            return self._recent[: self.events]
        return np.roll(self._recent, -(self.events % self._most), axis=0)

    def snapshot(self) -> dict[str, Any]:
        """The state, the monitor's in bytes."""
        plain = ("labels", "whole", "last", "events", "_most", "_first", "_early")
        return {
            **{name: getattr(self, name) for name in plain},
            "_sequence": self._sequence,
            "_emitted": self._emitted,
            "_recent": self._recent.copy(),
            "_profile": self._profile,
            "_against": self._against,
            "_forecast": self._forecast,
            "monitor": self.monitor.snapshot(),
            "reference": self.monitor.profile,
        }

    @classmethod
    def restore(cls, state: dict[str, Any], window: Window, estimator: str | Estimator) -> "Watch":
        """The watch that `snapshot` was taken of."""
        held = dict(state)
        own = None if isinstance(estimator, str) else estimator
        watch = cls.__new__(cls)
        watch.monitor = Monitor.restore(
            held.pop("monitor"), held.pop("reference"), window=window, estimator=own
        )
        watch.__dict__.update(held)
        watch.follow(watch._profile, watch._against, watch._forecast)
        return watch

    def _note(self, update: Update) -> None:
        self.last = renumber(update, self._first, self._sequence)


def renumber(update: Update, events: int, updates: int) -> Update:
    """An update of a monitor that began when so many events and updates had been."""

    def later(number: int | None) -> int | None:
        return None if number is None else number + events

    alarm = update.alarm
    if alarm is not None and alarm.get("since") is not None:
        alarm = {**alarm, "since": alarm["since"] + events}
    return replace(
        update,
        sequence=update.sequence + updates,
        first=later(update.first),
        last=later(update.last),
        changed_at=later(update.changed_at),
        alarm=alarm,
    )
