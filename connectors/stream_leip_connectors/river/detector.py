"""The alarm as one of River's drift detectors."""

from collections.abc import Iterator
from typing import Any

from river import base

from stream_leip import InputError, SourceProfile
from stream_leip.arrays import is_number
from stream_leip.describe import describe_alarm
from stream_leip.estimators import Estimator
from stream_leip.tracker import Tracker
from stream_leip_connectors.river.choosing import (
    check_profile,
    choose_estimator,
    example_profile,
    represent,
)
from stream_leip_connectors.river.reading import Inlet


class LabelShiftDetector(base.DriftAndWarningDetector):
    """Detects that the class mix changed, from posteriors alone.

    Of all streams whose mix stays that of the source, at most a share `alarm` ever have a drift
    detected, however long they are and however often anyone looks. "That of the source" is any mix
    that the validation set leaves open, so a small one makes the detector later, not louder. The
    promise is proven up to one approximation, the normal law of the validation set's mean.

    A warning comes earlier and promises less: under 5 % of streams of 10,000 events without a
    change ever warn; longer ones may more often.

    After a drift the new mix, once it is known well, becomes what "no change" means, so that the
    next change is found too. All later mixes together may cry wolf as often as the first.

    `drift_detected` is True after the one update that a change was proven with;
    `warning_detected` for as long as one is likely. Both can change every 50 updates.

    Parameters
    ----------
    profile
        The source, from `fit_profile`.
    alarm
        The share of streams without a change in which a drift may ever be detected.
    estimator
        "auto", "LEIP" or "EM".

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import fit_profile
    >>> from stream_leip_connectors.river import LabelShiftDetector
    >>> rng = np.random.default_rng(1)
    >>> def draw(labels):
    ...     odds = np.exp(3.0 * np.eye(3)[labels] + rng.normal(size=(len(labels), 3)))
    ...     return odds / odds.sum(axis=1, keepdims=True)
    >>> known = rng.integers(3, size=900)
    >>> profile = fit_profile(draw(known), known, ["ant", "bee", "cat"], kind="probabilities")
    >>> detector = LabelShiftDetector(profile)
    >>> later = rng.choice(3, size=500, p=[0.1, 0.1, 0.8])
    >>> stream = draw(np.concatenate([rng.integers(3, size=1000), later]))
    >>> for i, row in enumerate(stream):
    ...     detector.update(row)
    ...     if detector.drift_detected:
    ...         print(f"drift at {i}, from {detector.changed_at} on: {detector.moved}")
    drift at 1049, from 1000 on: {'cat': 'up', 'ant': 'down', 'bee': 'down'}
    """

    def __init__(
        self,
        profile: SourceProfile,
        alarm: float = 0.05,
        estimator: str | Estimator = "auto",
    ) -> None:
        super().__init__()
        check_profile(profile)
        if not (is_number(alarm) and 0.0 < alarm < 1.0):
            raise InputError(f"alarm: {alarm!r}; use a share such as 0.05")
        self.profile = profile
        self.alarm = alarm
        self.estimator = estimator
        self._inlet = Inlet(profile)
        self._tracker = Tracker(profile, choose_estimator(estimator), alarm)
        self._changed_at: int | None = None
        self._moved: dict[str, str] = {}

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"profile": example_profile()}

    @property
    def changed_at(self) -> int | None:
        """Before which update the last change was that was likely or proven, from 0."""
        return self._changed_at

    @property
    def moved(self) -> dict[str, str]:
        """Which classes moved then, most first, and whether "up" or "down"."""
        return dict(self._moved)

    def update(self, x: Any) -> None:
        """Take a posterior: a dict by class, or a score for each class, of the profile's kind."""
        rows = self._inlet.take(x)
        self._drift_detected = False
        if rows is not None:
            self._end_pane(rows)

    def _end_pane(self, rows: Any) -> None:
        tracker = self._tracker
        alarm = tracker.alarm
        assert alarm is not None
        raised = alarm.raised
        tracker.take(rows)
        self._drift_detected = alarm.raised and not raised
        self._warning_detected = alarm.warning and not alarm.raised
        if alarm.changed_at is not None:
            self._changed_at = alarm.changed_at
            moves = describe_alarm(alarm, self.profile)["classes"]
            self._moved = {move["class"]: move["direction"] for move in moves}

    def _reset(self) -> None:
        super()._reset()
        self._inlet = Inlet(self.profile)
        self._tracker = Tracker(self.profile, choose_estimator(self.estimator), self.alarm)
        self._changed_at, self._moved = None, {}

    def __repr__(self) -> str:
        return represent(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tracker": self._tracker.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._tracker = Tracker(self.profile, choose_estimator(self.estimator), self.alarm)
        self._tracker.restore(state["_tracker"])
