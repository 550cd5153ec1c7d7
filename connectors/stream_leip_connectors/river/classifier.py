"""A River classifier whose posteriors follow the class mix, without labels."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Any, cast

import numpy as np
from river import base, compose, naive_bayes, stream
from river.utils import dataframe

from stream_leip import Auto, Estimator, InputError, SourceProfile, Update
from stream_leip.arrays import Matrix
from stream_leip.checks import check_whole
from stream_leip.windows import Window
from stream_leip_connectors.river.choosing import choose_estimator, choose_window
from stream_leip_connectors.river.frames import scores_of_frame
from stream_leip_connectors.river.source import RollingSource
from stream_leip_connectors.river.watch import Watch
from stream_leip_connectors.river.weighing import checked


class LabelShiftClassifier(base.Wrapper[base.Classifier], base.MiniBatchClassifier):
    """Adapts a classifier's posteriors to the class mix of the unlabelled events.

    Labels often come late; the events themselves do not. Each labelled pair is scored before the
    model learns from it, and the last of them make the source profile, which is fitted anew as the
    model learns. Against it, unlabelled events tell what the mix is now.

    Until there are enough labels (half of `labelled`, or five times `refit_every` and 20 a class if
    that is less), this is the bare model. A class counts once it has five labels; before that its
    posterior is the model's own. Whether adapting pays is asked of every batch of new labels: where
    it did not, as while a model learns fast, posteriors stay as the model has them (`trust`).

    Parameters
    ----------
    model
        Any River classifier that gives probabilities, or a pipeline that ends in one.
    window
        `Tumbling`, `Sliding` or `Fading` by count, or `Adaptive()`, which None stands for.
    estimator
        "auto", "LEIP", "EM", or an estimator. "auto" judges LEIP and EM on shifts replayed on the
        labelled pairs, whenever these are as good as new: after ten refits.
    labelled
        How many labelled pairs make the profile: the last ones, and of a class that is rare among
        them its last ten.
    refit_every
        Labels from one fit of the calibrator, the source mix and the recalls to the next.
    observe_on_predict
        Whether a prediction also observes, as `observe_one` does. River's predictions change
        nothing, so that this has to be asked for. Predict once for each event then.
    seed
        Of the replayed shifts.

    Examples
    --------
    Halfway the third class takes over, and labels are 1000 events late:

    >>> import random
    >>> from river import evaluate, metrics, naive_bayes
    >>> from stream_leip_connectors.river import LabelShiftClassifier
    >>> def drifting(n=6000):
    ...     rng = random.Random(1)
    ...     for i in range(n):
    ...         y = rng.choices("abc", (1, 1, 1) if i < n / 2 else (1, 1, 8))[0]
    ...         yield {"u": rng.gauss("abc".index(y), 0.8), "v": rng.gauss(y == "b", 0.8)}, y
    >>> bare = naive_bayes.GaussianNB()
    >>> evaluate.progressive_val_score(drifting(), bare, metrics.Accuracy(), delay=1000)
    Accuracy: 76.42%
    >>> model = LabelShiftClassifier(naive_bayes.GaussianNB(), observe_on_predict=True)
    >>> evaluate.progressive_val_score(drifting(), model, metrics.Accuracy(), delay=1000)
    Accuracy: 79.60%
    >>> round(model.prior["c"], 1)
    0.9
    """

    def __init__(
        self,
        model: base.Classifier | compose.Pipeline,
        window: Window | None = None,
        estimator: str | Estimator = "auto",
        labelled: int = 2000,
        refit_every: int = 200,
        observe_on_predict: bool = False,
        seed: int = 0,
    ) -> None:
        _check_model(model)
        check_whole("labelled", labelled, least=10)
        check_whole("refit_every", refit_every)
        check_whole("seed", seed, least=0)
        if refit_every > labelled:
            raise InputError(
                f"refit_every: {refit_every!r} is more than the {labelled!r} pairs of labelled; "
                "use a tenth of them, say"
            )
        self.model = cast(base.Classifier, model)  # a pipeline that ends in one behaves as one
        self.window = window
        self.estimator = estimator
        self.labelled = labelled
        self.refit_every = refit_every
        self.observe_on_predict = observe_on_predict
        self.seed = seed
        self._name = str(model)
        choose_window(window)  # a wrong one is refused now, not at the first fit
        judged = isinstance(choose_estimator(estimator), Auto)
        self._source = RollingSource(labelled, refit_every, judged, seed)
        self._watch: Watch | None = None
        self._early = 0

    @property
    def _wrapped_model(self) -> base.Classifier:
        return self.model

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        model = naive_bayes.GaussianNB()
        yield {"model": model, "labelled": 100, "refit_every": 20}

    @property
    def ready(self) -> bool:
        """Whether there were enough labels; until then this is the bare model."""
        return self._watch is not None

    @property
    def trust(self) -> float:
        """The part of a posterior that is adapted, from 0 to 1; the rest is as the model has it.

        Both parts are tempered by the calibrator's scale, which changes no label.
        """
        return 0.0 if self._watch is None else self._watch.trust

    @property
    def profile(self) -> SourceProfile | None:
        """The source profile, of the last labelled pairs; None until ready."""
        return self._source.profile

    @property
    def prior(self) -> dict[Hashable, float]:
        """The mix that posteriors are adapted to, by label; empty until ready."""
        if self._watch is None:
            return {}
        return dict(zip(self._watch.labels, self._watch.prior.tolist(), strict=True))

    @property
    def last_update(self) -> Update | None:
        """The monitor's newest update, with intervals, alarm and check."""
        return None if self._watch is None else self._watch.last

    @property
    def alarm(self) -> bool:
        """Whether the mix is proven to be another than that of the labelled pairs.

        At most 5 % of streams without a change ever raise it against one profile; a profile lasts
        for ten refits.
        """
        update = self.last_update
        return update is not None and update.alarm is not None and bool(update.alarm["raised"])

    def learn_one(self, x: dict[Any, Any], y: Any, **kwargs: Any) -> None:
        """Learn from a labelled event, and keep it as a pair of scores and label."""
        scores = checked(self.model.predict_proba_one(x), self._name)
        self.model.learn_one(x, y, **kwargs)
        if self._source.add(scores, y):
            self._follow()

    def _follow(self) -> None:
        """Go on with the profile that was just fitted."""
        source, watch = self._source, self._watch
        profile, forecast = source.profile, source.forecast
        assert profile is not None
        assert forecast is not None
        if watch is not None and watch.whole == source.whole:
            watch.follow(profile, source.trust.against, forecast)
            return
        window = choose_window(self.window)
        fresh = Watch(
            profile,
            source.labels,
            window,
            self.estimator,
            self.labelled,
            source.whole,
            source.trust.against,
            forecast,
            self._early,
        )
        if watch is not None:
            fresh.succeed(watch)
        self._watch = fresh

    def observe_one(self, x: dict[Any, Any]) -> None:
        """Take an unlabelled event: what the model predicts of it tells about the mix."""
        scores = checked(self.model.predict_proba_one(x), self._name)
        self._observe(scores)

    def _observe(self, scores: Mapping[Any, float]) -> None:
        if self._watch is None:
            self._early += 1
        elif scores:
            self._watch.observe(scores)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """The model's posteriors, adapted to the mix now."""
        given = self.model.predict_proba_one(x, **kwargs)
        scores = checked(given, self._name)
        watch = self._watch
        adapted = given
        if watch is not None and scores:
            adapted = watch.adapted.posteriors(scores, watch.trust)
        if self.observe_on_predict:
            self._observe(scores)
        return adapted

    def learn_many(self, X: Any, y: Any, **kwargs: Any) -> None:
        """Learn from the rows of a frame in turn, as `learn_one` does.

        No batch is learnt at once: scored before all of it is learnt, its pairs would be of the
        model as it was a batch ago, and the profile another than that of the rows one by one.
        """
        for x, label in stream.iter_frame(X, y):
            self.learn_one(x, label, **kwargs)

    def observe_many(self, X: Any) -> None:
        """Take the rows of a frame as unlabelled events."""
        labels, scores = scores_of_frame(self.model, X, self._name)
        if self._watch is None:
            self._early += len(scores)
        elif labels:
            self._watch.observe_many(scores, labels)

    def predict_proba_many(self, X: Any, **kwargs: Any) -> Any:
        """The adapted posteriors of the rows of a frame, as a frame of the same kind."""
        labels, posteriors = self._posteriors_of(X, **kwargs)
        columns = {label: posteriors[:, j] for j, label in enumerate(labels)}
        return dataframe.to_native_frame(columns, like=dataframe.into_frame(X))

    def predict_many(self, X: Any, **kwargs: Any) -> Any:
        """The most likely label of each row of a frame, as a series of the same kind."""
        labels, posteriors = self._posteriors_of(X, **kwargs)
        if labels:
            found = [labels[j] for j in posteriors.argmax(axis=1)]
        else:
            found = [None] * len(posteriors)
        return dataframe.to_native_series(found, name=None, like=dataframe.into_frame(X))

    def _posteriors_of(self, X: Any, **kwargs: Any) -> tuple[list[Any], Matrix]:
        labels, scores = scores_of_frame(self.model, X, self._name, **kwargs)
        watch = self._watch
        if watch is None or not labels:
            self._early += len(scores) if self.observe_on_predict else 0
            return labels, scores
        if not self.observe_on_predict:
            return labels, watch.adapted.many(scores, labels, watch.trust)
        # Each observation may change the mix that the next row is adapted to.
        found = np.empty_like(scores)
        for i, line in enumerate(scores.tolist()):
            by_label = dict(zip(labels, line, strict=True))
            found[i] = list(watch.adapted.posteriors(by_label, watch.trust).values())
            watch.observe(by_label)
        return labels, found

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_watch"] = None if self._watch is None else self._watch.snapshot()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        held = state["_watch"]
        if held is not None:
            self._watch = Watch.restore(held, choose_window(self.window), self.estimator)


def _check_model(model: object) -> None:
    if not isinstance(model, base.Classifier) or isinstance(model, base.MultiLabelClassifier):
        what = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise InputError(
            f"model: {what} is no classifier of one label; use one such as naive_bayes.GaussianNB()"
        )
    last = getattr(model, "_last_step", model)
    if type(last).predict_proba_one is base.Classifier.predict_proba_one:
        raise InputError(
            f"model: {type(last).__name__} gives no probabilities; use a classifier with "
            "predict_proba_one"
        )
