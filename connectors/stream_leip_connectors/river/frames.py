"""What a model makes of the rows of a data frame."""

from typing import Any

import numpy as np
from river import base, stream
from river.utils import dataframe

from stream_leip.arrays import Matrix
from stream_leip_connectors.river.weighing import checked

_EQUAL = "check_predict_proba_many_matches_predict_proba_one"


def scores_of_frame(
    model: base.Classifier, frame: Any, name: str, **kwargs: Any
) -> tuple[list[Any], Matrix]:
    """The labels a model knows, and its posteriors of each row, summing to one.

    The model's own `predict_proba_many` is used where River holds that it says the same as
    `predict_proba_one`; a line that it leaves open (NaN) is asked for on its own.
    """
    found = _by_the_model(model, frame, **kwargs)
    if found is None:
        each = (x for x, _ in stream.iter_frame(frame))
        return _align([checked(model.predict_proba_one(x, **kwargs), name) for x in each])
    labels, scores = found
    total = scores.sum(axis=1) if labels else np.ones(len(scores))
    odd = np.flatnonzero(~((np.abs(total - 1.0) <= 1e-9) & (scores >= 0.0).all(axis=1)))
    if len(odd):
        rows = [x for x, _ in stream.iter_frame(frame)]
        for i in odd:
            line = checked(model.predict_proba_one(rows[i], **kwargs), name)
            scores[i] = [line.get(label, 0.0) for label in labels]
    return labels, scores


def _by_the_model(
    model: base.Classifier, frame: Any, **kwargs: Any
) -> tuple[list[Any], Matrix] | None:
    last = getattr(model, "_last_step", model)
    if not isinstance(last, base.MiniBatchClassifier) or _EQUAL in last._unit_test_skips():
        return None  # River does not check that the two say the same
    try:
        given = dataframe.into_frame(model.predict_proba_many(frame, **kwargs))  # type: ignore[attr-defined]
    except (AttributeError, NotImplementedError):
        return None  # some step of a pipeline, or the model itself, takes one row at a time only
    labels: list[Any] = list(given.columns)
    if not labels:
        return [], np.empty((len(dataframe.into_frame(frame)), 0))
    if all(isinstance(label, str) for label in labels):
        # Frames other than pandas' have text for names; one row tells what stands behind it.
        row = next(x for x, _ in stream.iter_frame(frame))
        real = {str(label): label for label in model.predict_proba_one(row, **kwargs)}
        labels = [real.get(label, label) for label in labels]
    return labels, np.array(dataframe.to_numpy(given))


def _align(lines: list[Any]) -> tuple[list[Any], Matrix]:
    labels = list(dict.fromkeys(label for line in lines for label in line))
    scores = [[line.get(label, 0.0) for label in labels] for line in lines]
    return labels, np.array(scores, float).reshape(len(lines), len(labels))
