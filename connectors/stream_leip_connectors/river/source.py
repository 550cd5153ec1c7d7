"""The source profile of a model that learns: fitted anew, from the last labelled pairs."""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from stream_leip.calibration import as_logits, steady_calibrator
from stream_leip.fitting import Labelled, describe_source, judge, renew_source
from stream_leip.profile import ReplayErrors, SourceProfile
from stream_leip_connectors.river.pairs import Pairs
from stream_leip_connectors.river.trust import Forecast, Trust
from stream_leip_connectors.river.weighing import floored

# The whole profile, with the replay that `auto` reads, is made anew so many times less often.
SELDOM = 10
# Of replays: shifts drawn for each size and concentration on each fold, and the sizes.
DRAWS = 1
SIZES = (200, 1000)
# Before the first fit, pairs for each class on average.
_ENOUGH = 20


class RollingSource:
    """Labelled pairs, and the profile that they make.

    Parameters
    ----------
    labelled
        How many pairs to keep.
    refit_every
        Pairs from one fit to the next.
    judged
        Whether estimators are judged on replayed shifts, for `auto`.
    seed
        Of replays.
    """

    def __init__(self, labelled: int, refit_every: int, judged: bool, seed: int) -> None:
        self.pairs = Pairs(labelled)
        self.profile: SourceProfile | None = None
        self.labels: list[Hashable] = []
        self.trust = Trust()
        self.forecast: Forecast | None = None
        self.whole = 0
        self._labelled = labelled
        self._every = refit_every
        self._judged = judged
        self._seed = seed
        self._next_whole = 0

    def add(self, scores: Mapping[Any, float], label: Hashable) -> bool:
        """Take a pair; return whether the profile is a new one."""
        if label not in scores:
            return False  # the model had never heard of it, which tells nothing of its scores
        self.pairs.add(scores, label)
        return self.pairs.n % self._every == 0 and self._fit()

    def _fit(self) -> bool:
        n = self.pairs.n
        known = self.pairs.known()
        enough = min(self._labelled // 2, max(5 * self._every, _ENOUGH * len(known)))
        if len(known) < 2 or n < enough:
            return False
        self._ask()
        data = self._data(known)
        before = self.profile if known == self.labels else None
        start = None if before is None else before.calibrator
        calibrator = steady_calibrator(data.logits, data.labels, start)
        if before is not None and n < self._next_whole:
            self._take(renew_source(before, data, calibrator), data)
            return True
        errors = ReplayErrors((), {})
        if self._judged:
            errors = judge(data, steady_calibrator, self._seed, DRAWS, SIZES)
        self._take(replace(describe_source(data, calibrator, self._seed), replay=errors), data)
        self.labels = known
        self._next_whole = min(2 * n, n + SELDOM * self._every)
        self.whole += 1
        return True

    def _take(self, profile: SourceProfile, data: Labelled) -> None:
        self.profile = profile
        self.forecast = Forecast(profile, data.scores, data.labels)

    def _ask(self) -> None:
        """Try the profile on the pairs that came since it was fitted."""
        if self.profile is not None:
            scores, labels = self.pairs.last(self._every, self.labels)
            if len(labels):
                self.trust.ask(scores, labels, self.profile)

    def _data(self, known: list[Hashable]) -> Labelled:
        # While a model is young, pairs from before it had half its labels are of another model.
        most = min(self._labelled, max(self._every, self.pairs.n // 2))
        scores, labels = self.pairs.validation(most, known)
        scores = floored(scores)
        return Labelled(
            scores, as_logits(scores, "probabilities"), labels, names(known), "probabilities"
        )


def names(labels: list[Hashable]) -> tuple[str, ...]:
    """Labels as names of classes, each another one."""
    plain = tuple(map(str, labels))
    return plain if len(set(plain)) == len(plain) else tuple(map(repr, labels))
