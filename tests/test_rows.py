"""The gate: what becomes a row, what does not, and what is said about it."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

from stream_leip import BadRowsError, InputError, SourceProfile, StreamLeipError
from stream_leip.calibration import Calibrator, Method
from stream_leip.profile import ReplayErrors
from stream_leip.validation import Validation

CLASSES = ("cat", "dog", "fox")


def profile(kind: Any = "logits", scale: Any = None, bias: Any = None) -> SourceProfile:
    method: Method = "none" if scale is None and bias is None else "VS"
    calibrator = Calibrator(
        method,
        np.ones(3) if scale is None else np.asarray(scale, float),
        np.zeros(3) if bias is None else np.asarray(bias, float),
    )
    joint = np.eye(3) / 3
    replay = ReplayErrors((200,), {"LEIP": (0.1,), "EM": (0.2,)})
    return SourceProfile(
        CLASSES, kind, calibrator, Validation(9, joint, joint, (0.0, 0.0), (0.0, 0.0)), replay
    )


ROW = [0.2, 0.3, 0.5]
SAME = [
    np.array([ROW, ROW]),
    np.array([ROW, ROW], np.float32),
    np.asfortranarray([ROW, ROW]),
    np.array([ROW, ROW], ">f8"),
    np.array([ROW, ROW], object),
    [ROW, ROW],
    (tuple(ROW), ROW),
    [np.array(ROW), np.array(ROW, np.float32)],
    [dict(zip(CLASSES, ROW, strict=True))] * 2,
    [{"fox": 0.5, "cat": 0.2, "dog": 0.3}, ROW],
]


@pytest.mark.parametrize("scores", SAME, ids=range(len(SAME)))
@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_every_container_gives_the_same_rows(scores: Any, kind: str) -> None:
    rows = profile(kind).rows(scores)
    assert rows.dtype == np.float32
    expected = softmax(ROW) if kind == "logits" else np.array(ROW)
    np.testing.assert_allclose(rows, [expected, expected], rtol=1e-6)
    screened, bad = profile(kind).screen(scores)
    np.testing.assert_array_equal(screened, rows)
    assert bad == []


def test_integer_class_names_and_keys() -> None:
    from stream_leip import fit_profile

    fitted = fit_profile(np.eye(2)[[0, 1] * 10] * 3 - 1, [7, 3] * 10, classes=[7, 3])
    np.testing.assert_array_equal(fitted.rows([{3: 0.0, 7: 1.0}]), fitted.rows([[1.0, 0.0]]))


finite = st.floats(-1e4, 1e4, width=32)


@given(
    arrays(np.float64, (4, 3), elements=finite),
    st.lists(st.floats(0.01, 10), min_size=3, max_size=3),
)
def test_logits_are_softmax_of_scaled_logits(z: Any, scale: list[float]) -> None:
    rows = profile("logits", scale=scale, bias=[0.1, 0.2, 0.3]).rows(z)
    np.testing.assert_allclose(rows, softmax(z * scale + [0.1, 0.2, 0.3], axis=1), atol=1e-6)


@given(arrays(np.float64, (4, 3), elements=st.floats(0, 1)))
def test_probabilities_are_calibrated_as_their_logarithms(p: Any) -> None:
    p = p + 1e-6
    p /= p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(profile("probabilities").rows(p), p, atol=1e-6)
    scaled = profile("probabilities", scale=[0.5] * 3).rows(p)
    np.testing.assert_allclose(scaled, softmax(0.5 * np.log(p), axis=1), atol=1e-6)


@pytest.mark.parametrize("scale", [None, [2.0, 2.0, 2.0], [0.0, -1.0, 1.0]])
def test_extremes_give_rows_and_no_warning(scale: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        logits = [
            [1e4, 0, -1e4],
            [1e300, -1e300, 0],
            [-3.4e38, 0, 3.4e38],
            [0, 0, 0],
            [1.7e308] * 3,
        ]
        rows = profile("logits", scale=scale).rows(logits)
        assert np.isfinite(rows).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-6)
        rows = profile("probabilities", scale=scale).rows([[1, 0, 0], [0.5, 0.5, 0], [1e-40, 0, 1]])
        assert np.isfinite(rows).all()
        np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-6)


def test_a_sum_within_the_tolerance_is_renormalised() -> None:
    rows = profile("probabilities").rows([[0.2, 0.3, 0.5009], [0.2, 0.3, 0.4991]])
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-6)


NAN, INF = float("nan"), float("inf")
BAD_ROWS = [
    ("logits", [NAN, 0, 0], "score of class 'cat' is nan"),
    ("logits", [0, INF, 0], "score of class 'dog' is inf"),
    ("logits", [0, 0, -INF], "score of class 'fox' is -inf"),
    ("logits", [INF, NAN, 0], "is nan|is inf"),
    ("probabilities", [NAN, 0.5, 0.5], "score of class 'cat' is nan"),
    ("probabilities", [1.2, -0.2, 0.0], "probability of class 'dog' is -0.2"),
    ("probabilities", [0.5, 0.5, 0.5], "sum to 1.5, not 1"),
    ("probabilities", [0.2, 0.3, 0.502], "sum to 1.002, not 1"),
    ("probabilities", [0, 0, 0], "all probabilities are zero"),
    ("logits", [1.0, 2.0], "2 scores for 3 classes"),
    ("logits", [], "0 scores for 3 classes"),
    ("logits", ["a", 0, 0], "'a' .* is not a score"),
    ("logits", "abc", "'abc' .* is not a row"),
    ("logits", None, "None .* is not a row"),
    ("logits", 1.0, "1.0 .* is not a row"),
    ("logits", [None, 0, 0], "None .* is not a score"),
    ("logits", [[1], [2], [3]], "is not a score"),
    ("logits", [10**400, 0, 0], "is not a score"),
    ("logits", {"cat": 0, "dog": 1, "cow": 2}, "class 'cow' is unknown; the classes are cat, dog"),
    ("logits", {"cat": 0, "dog": 1}, "class 'fox' is missing"),
    ("logits", {"cat": 0, "dog": 1, "fox": NAN}, "score of class 'fox' is nan"),
    ("logits", {}, "class 'cat' is missing"),
]


@pytest.mark.parametrize(
    ("kind", "bad", "says"), BAD_ROWS, ids=[f"{k} {b}" for k, b, _ in BAD_ROWS]
)
def test_bad_rows_are_named_and_the_good_ones_kept(kind: str, bad: Any, says: str) -> None:
    good = [0.2, 0.3, 0.5]
    batch = [good, bad, good, bad]
    with pytest.raises(
        BadRowsError, match=rf"row 1 \(the first of 2 bad rows in 4\): .*(?:{says})"
    ) as info:
        profile(kind).rows(batch)
    assert (info.value.first, info.value.count, info.value.total) == (1, 2, 4)
    rows, refused = profile(kind).screen(batch)
    np.testing.assert_array_equal(rows, profile(kind).rows([good, good]))
    assert [index for index, _ in refused] == [1, 3]
    # A batch of that row alone is refused too, whichever way it is read.
    with pytest.raises(InputError):
        profile(kind).rows([bad])


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        (np.zeros(3), "1 dimensions, not 2"),
        (np.zeros((1, 3, 1)), "3 dimensions, not 2"),
        (np.float64(1.0), "not a batch of rows"),
        ([0.1, 0.2, 0.7], "1 dimensions, not 2"),
        (np.zeros((2, 4)), "4 columns, but there are 3 classes: cat, dog, fox"),
        (np.array([["a", "b", "c"]]), "not numbers"),
        (np.zeros((1, 3), complex), "complex128 is not numbers"),
        (np.zeros((1, 3), bool), "bool is not numbers"),
        ("abc", "not a batch of rows"),
        (b"abc", "not a batch of rows"),
        ({"cat": 1}, "not a batch of rows"),
        (None, "not a batch of rows"),
        (3, "not a batch of rows"),
        ([], "there are none"),
        (np.empty((0, 3)), "there are none"),
    ],
)
def test_what_is_no_batch_is_refused(scores: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        profile().rows(scores)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["cat", "dog", "fox", "cow"]), inner, max_size=4)
        ),
        max_leaves=30,
    ),
    st.sampled_from(["logits", "probabilities"]),
)
def test_anything_gives_rows_or_an_error_of_ours(scores: Any, kind: str) -> None:
    source = profile(kind)
    try:
        rows, bad = source.screen(scores)
    except StreamLeipError:
        return
    assert len(rows) + len(bad) == len(scores)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-5)


def test_input_is_never_modified() -> None:
    for kind in ("logits", "probabilities"):
        scores = np.array([ROW, [0.0, 0.0, 1.0]])
        before = scores.copy()
        profile(kind, scale=[2, 2, 2]).rows(scores)
        np.testing.assert_array_equal(scores, before)
