"""Data frames at the gate, by the names of their columns."""

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stream_leip import InputError, KeyedMonitor, Monitor, Tumbling, fit_profile
from tests.data import load, validation

NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
MAKERS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}


def columns(logits: Any, **others: Any) -> dict[str, Any]:
    """Class columns in another order than the profile's, among others."""
    backwards = {name: logits[:, j] for j, name in reversed(list(enumerate(NAMES)))}
    return {"id": np.arange(len(logits)), **backwards, **others}


@pytest.fixture(scope="module")
def profile() -> Any:
    logits, labels = validation("mnist_mlp", 1000)
    return fit_profile(logits, labels, NAMES)


@pytest.mark.parametrize("kind", MAKERS)
def test_a_frame_gives_the_rows_of_its_array(kind: str, profile: Any) -> None:
    logits = load("mnist_mlp")["test_logits"][:500]
    frame = MAKERS[kind](columns(logits))
    np.testing.assert_array_equal(profile.rows(frame), profile.rows(logits))
    by_frame = Monitor(profile, Tumbling(count=200)).update_many(frame)
    by_array = Monitor(profile, Tumbling(count=200)).update_many(logits)
    assert [each.to_dict() for each in by_frame] == [each.to_dict() for each in by_array]


@pytest.mark.parametrize("kind", MAKERS)
def test_a_profile_is_fitted_to_a_frame(kind: str, profile: Any) -> None:
    logits, labels = validation("mnist_mlp", 1000)
    truth = [NAMES[label] for label in labels]
    frame = MAKERS[kind](columns(logits, label=truth))
    label = frame["label"]
    by_name = fit_profile(frame, label, NAMES)
    assert by_name.fingerprint == profile.fingerprint
    scores = MAKERS[kind]({name: logits[:, j] for j, name in enumerate(NAMES)})
    assert fit_profile(scores, truth).fingerprint == profile.fingerprint


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_times_and_keys_may_be_columns(kind: str, profile: Any) -> None:
    logits = load("mnist_mlp")["test_logits"][:500]
    seconds = 1.7e9 + np.arange(500.0)
    keys = ["north", "south"] * 250
    frame = MAKERS[kind](columns(logits, time=seconds, shop=keys))
    window = Tumbling(seconds=100)
    found = KeyedMonitor(profile, window).update_many(frame["shop"], frame, frame["time"])
    wanted = KeyedMonitor(profile, window).update_many(keys, logits, seconds)
    assert [each.to_dict() for each in found] == [each.to_dict() for each in wanted]


def test_columns_are_named_by_numbers_too() -> None:
    logits, labels = validation("mnist_mlp", 1000)
    profile = fit_profile(logits, labels)
    frame = pd.DataFrame(logits)
    np.testing.assert_array_equal(profile.rows(frame), profile.rows(logits))


def test_missing_values_are_bad_rows(profile: Any) -> None:
    logits = load("mnist_mlp")["test_logits"][:5].astype(float)
    table = columns(logits)
    table["bee"] = [0.0, None, 0.0, 0.0, 0.0]
    for make in (pd.DataFrame, pl.DataFrame):
        rows, bad = profile.screen(make(table))
        assert len(rows) == 4
        assert bad == [(1, "the score of class 'bee' is nan; drop the row, or mend the classifier")]


@pytest.mark.parametrize("make", MAKERS.values())
def test_unfit_frames_say_what_is_wrong(make: Any, profile: Any) -> None:
    logits = load("mnist_mlp")["test_logits"][:3]
    table = columns(logits)
    with pytest.raises(InputError, match="no column 'jay'; it has id, ibis"):
        profile.rows(make({name: column for name, column in table.items() if name != "jay"}))
    with pytest.raises(InputError, match=r"column 'cat' of the frame is .*, not numbers"):
        profile.rows(make({**table, "cat": ["x", "y", "z"]}))
    with pytest.raises(InputError, match="there are none"):
        profile.rows(make({name: column[:0] for name, column in table.items()}))


def test_a_lazy_frame_is_to_be_collected(profile: Any) -> None:
    frame = pl.LazyFrame(columns(load("mnist_mlp")["test_logits"][:3]))
    with pytest.raises(InputError, match="LazyFrame has no rows yet"):
        profile.rows(frame)


def test_a_column_twice_is_refused(profile: Any) -> None:
    frame = pd.DataFrame(load("mnist_mlp")["test_logits"][:3], columns=NAMES)
    with pytest.raises(InputError, match="column 'ant' of the frame is there more than once"):
        profile.rows(pd.concat([frame, frame], axis=1))


def test_no_frame_library_is_imported() -> None:
    code = "import sys, stream_leip; print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
