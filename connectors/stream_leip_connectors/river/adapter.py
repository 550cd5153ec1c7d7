"""Posteriors of any classifier, adapted to the class mix, as one of River's transformers."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from river import base
from river.utils import dataframe

from stream_leip import Estimator, Monitor, SourceProfile, Update
from stream_leip.windows import Window
from stream_leip_connectors.river.choosing import (
    check_profile,
    choose_estimator,
    choose_window,
    example_profile,
    represent,
)
from stream_leip_connectors.river.reading import Reader


class PosteriorAdapter(base.MiniBatchTransformer):
    """Adapts dicts of posteriors, from a classifier outside River, to the class mix.

    `learn_one` observes a posterior, `transform_one` adapts one; adapting observes nothing.

    Not for use as `model | PosteriorAdapter(profile)`: in a pipeline River would feed it the
    features. Around a River classifier, use `LabelShiftClassifier`.

    Parameters
    ----------
    profile
        The source, from `fit_profile`. Dicts have scores of its kind, by the names of its classes;
        a class may be missing, which is a probability of zero, but an unknown one is an error.
    window
        `Tumbling`, `Sliding` or `Fading` by count, or `Adaptive()`, which None stands for.
    estimator
        "auto", "LEIP", "EM", or an estimator.

    Examples
    --------
    >>> import numpy as np
    >>> from stream_leip import fit_profile
    >>> from stream_leip_connectors.river import PosteriorAdapter
    >>> rng = np.random.default_rng(0)
    >>> def draw(labels):
    ...     odds = np.exp(2.0 * np.eye(2)[labels] + rng.normal(size=(len(labels), 2)))
    ...     return odds / odds.sum(axis=1, keepdims=True)
    >>> known = rng.integers(2, size=500)
    >>> profile = fit_profile(draw(known), known, ["no", "yes"], kind="probabilities")
    >>> adapter = PosteriorAdapter(profile)
    >>> for no, yes in draw((rng.random(2000) < 0.9).astype(int)):
    ...     adapter.learn_one({"no": no, "yes": yes})
    >>> {name: round(p, 2) for name, p in adapter.transform_one({"no": 0.6, "yes": 0.4}).items()}
    {'no': 0.22, 'yes': 0.78}
    >>> adapter.transform_one({"no": 0.6, "maybe": 0.4})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    stream_leip.errors.InputError: x: class 'maybe' is unknown; the classes of the profile are ...
    """

    def __init__(
        self,
        profile: SourceProfile,
        window: Window | None = None,
        estimator: str | Estimator = "auto",
    ) -> None:
        check_profile(profile)
        self.profile = profile
        self.window = window
        self.estimator = estimator
        self._reader = Reader(profile)
        self._monitor = Monitor(profile, choose_window(window), choose_estimator(estimator))
        self._last: Update | None = None

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"profile": example_profile()}

    @property
    def prior(self) -> dict[str, float]:
        """The mix that posteriors are adapted to."""
        return dict(zip(self.profile.classes, self._monitor.adapting_prior.tolist(), strict=True))

    @property
    def last_update(self) -> Update | None:
        """The monitor's newest update, with intervals, alarm and check."""
        return self._last

    @property
    def alarm(self) -> bool:
        """Whether the mix is proven to be another than the source's (see `LabelShiftDetector`)."""
        update = self._last
        return update is not None and update.alarm is not None and bool(update.alarm["raised"])

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Observe a posterior."""
        self._note(self._monitor.update(np.array(self._reader.one(x), float)))

    def transform_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """A posterior under the mix now; the same classes, in the same order."""
        adapted = self._monitor.adapt(np.array([self._reader.one(x)], float))[0].tolist()
        by_name = dict(zip(self.profile.classes, adapted, strict=True))
        return {key: by_name[str(key)] for key in x}

    def learn_many(self, X: Any) -> None:
        """Observe the posteriors of a frame, a column for each class."""
        self._note(self._monitor.update_many(self._reader.many(X)))

    def transform_many(self, X: Any) -> Any:
        """The posteriors of a frame under the mix now, as a frame of the same kind."""
        frame = dataframe.into_frame(X)
        adapted = self._monitor.adapt(self._reader.many(X)).astype(float)
        place = {name: j for j, name in enumerate(self.profile.classes)}
        columns = {name: adapted[:, place[str(name)]] for name in frame.columns}
        return dataframe.to_native_frame(columns, like=frame)

    def _note(self, updates: list[Update]) -> None:
        if updates:
            self._last = updates[-1]

    def __repr__(self) -> str:
        return represent(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_monitor": self._monitor.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._monitor = Monitor.restore(
            state["_monitor"],
            self.profile,
            window=choose_window(self.window),
            estimator=choose_estimator(self.estimator),
        )
