"""Fitting a profile, keeping it in a file, and getting it back."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from stream_leip import InputError, ProfileError, SourceProfile, fit_profile, profile_json
from tests.data import validation


@pytest.fixture(scope="module")
def fitted() -> SourceProfile:
    scores, labels = validation("mnist_mlp", 600)
    return fit_profile(scores, labels, classes=[f"digit {j}" for j in range(10)])


@pytest.fixture(scope="module")
def saved(fitted: SourceProfile, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("profile") / "p.json"
    fitted.save(path)
    return path.read_bytes()


def test_statistics_are_those_of_the_validation_rows(fitted: SourceProfile) -> None:
    scores, labels = validation("mnist_mlp", 600)
    rows = fitted.rows(scores)
    predicted = rows.argmax(axis=1)
    assert fitted.validation.n == 600
    assert fitted.accuracy == pytest.approx((predicted == labels).mean())
    np.testing.assert_allclose(fitted.hard_prior, np.bincount(labels) / 600)
    np.testing.assert_allclose(fitted.soft_prior, rows.mean(axis=0), atol=1e-6)
    for j in range(10):
        assert fitted.recalls[j] == pytest.approx((predicted[labels == j] == j).mean())
        assert fitted.precisions[j] == pytest.approx((labels[predicted == j] == j).mean())
        soft = rows[labels == j].sum(axis=0, dtype=float) / 600
        np.testing.assert_allclose(fitted.validation.soft[:, j], soft, atol=1e-6)
    assert fitted.validation.nll[1] < fitted.validation.nll[0]


def test_the_same_input_and_seed_give_the_same_bytes(saved: bytes, tmp_path: Path) -> None:
    scores, labels = validation("mnist_mlp", 600)
    names = [f"digit {j}" for j in range(10)]
    again = fit_profile(scores.tolist(), [names[j] for j in labels], classes=names)
    again.save(tmp_path / "p.json")
    assert (tmp_path / "p.json").read_bytes() == saved
    other = fit_profile(scores, labels, classes=names, seed=1)
    other.save(tmp_path / "q.json")
    assert (tmp_path / "q.json").read_bytes() != saved


def test_load_gives_back_all_of_it(fitted: SourceProfile, saved: bytes, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(saved)
    loaded = SourceProfile.load(tmp_path / "p.json")
    assert loaded.fingerprint == fitted.fingerprint
    assert str(loaded) == str(fitted)
    scores, _ = validation("mnist_mlp", 100)
    np.testing.assert_array_equal(loaded.rows(scores), fitted.rows(scores))
    loaded.save(tmp_path / "q.json")
    assert (tmp_path / "q.json").read_bytes() == saved


def test_the_file_is_readable_json(saved: bytes) -> None:
    file = json.loads(saved)
    assert (file["format"], file["version"]) == ("stream-leip profile", 2)
    content = file["content"]
    assert content["classes"][3] == "digit 3"
    assert content["calibrator"]["method"] == "BCTS"
    assert content["validation"]["hard"]["shape"] == [10, 10]
    assert saved.count(b"\n") > 20


def signed(data: bytes, change: Any) -> bytes:
    """A file whose content was changed, with a checksum that fits."""
    file = json.loads(data)
    change(file["content"])
    content = msgspec.json.decode(json.dumps(file["content"]), type=profile_json.Content)
    return profile_json.encode(content)


def load_changed(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "p.json").write_bytes(data)
    SourceProfile.load(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda data: b"", "not a profile, or cut short"),
        (lambda data: data[: len(data) // 2], "not a profile, or cut short"),
        (lambda data: b"\xff\xfe" + data, "not a profile, or cut short"),
        (lambda data: b"[1, 2]", "not a stream-leip profile"),
        (lambda data: b'{"model": "resnet"}', "not a stream-leip profile"),
        (lambda data: data.replace(b'"version": 2', b'"version": 3'), "version 3.*upgrade"),
        (lambda data: data.replace(b'"version": 2', b'"version": 1'), "version 1.*fit the"),
        (lambda data: data.replace(b'"version": 2', b'"version": "x"'), "version 'x'"),
        (lambda data: data.replace(b'"digit 3"', b'"digit X"'), "does not match its checksum"),
        (lambda data: data.replace(b'"kind": "logits"', b'"kind": "odds"'), "corrupt"),
        (lambda data: data.replace(b'"seed": 0', b'"seed": 0, "more": 1'), "corrupt"),
        (lambda data: b"[" * 100_000, "not a profile, or cut short"),
        (
            lambda data: signed(data, lambda c: c["validation"]["hard"].update(dtype="zz")),
            "corrupt",
        ),
        (lambda data: signed(data, lambda c: c["calibrator"].update(scale=[1.0])), "10 classes"),
        (
            lambda data: signed(
                data, lambda c: c["evidence"].update(soft=c["evidence"]["covariance"])
            ),
            r"soft has the shape \(10, 10\), not \(11, 11\)",
        ),
        (
            lambda data: signed(
                data, lambda c: c["evidence"].update(labels=c["evidence"]["features"]["counts"])
            ),
            "rows has the shape",
        ),
    ],
)
def test_a_file_that_is_no_profile_of_ours_is_refused(
    saved: bytes, tmp_path: Path, change: Any, says: str
) -> None:
    with pytest.raises(ProfileError, match=f"(?s)p.json: .*{says}"):
        load_changed(tmp_path, change(saved))


@given(place=st.integers(0), flip=st.integers(1, 255))
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_changed_byte_is_refused_or_harmless(
    fitted: SourceProfile, saved: bytes, tmp_path: Path, place: int, flip: int
) -> None:
    data = bytearray(saved)
    data[place % len(data)] ^= flip
    (tmp_path / "p.json").write_bytes(data)
    try:
        loaded = SourceProfile.load(tmp_path / "p.json")
    except ProfileError:
        return
    assert loaded.fingerprint == fitted.fingerprint  # white space, say


def test_a_missing_file_and_an_unwritable_one(fitted: SourceProfile, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none\.json: no such file; make a profile"):
        SourceProfile.load(tmp_path / "none.json")
    with pytest.raises(ProfileError, match="cannot be written"):
        fitted.save(tmp_path / "no folder" / "p.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ProfileError, match="cannot be written"):
        fitted.save(tmp_path / "folder")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_the_table_says_what_a_person_needs(fitted: SourceProfile) -> None:
    text = str(fitted)
    assert "600 validation rows of 10 classes, logits, accuracy 0.9" in text
    assert re.search(r"calibration BCTS: NLL 0\.\d+ → 0\.\d+, ECE 0\.\d+ → 0\.\d+", text)
    assert re.search(r"digit 3 +0\.\d+ +0\.\d+ +0\.\d+ +0\.\d+", text)
    assert re.search(r"200 +0\.\d+ +0\.\d+  (LEIP|EM) \(\d+ % less error\)", text)


def test_probabilities_and_their_logits_give_the_same_rows() -> None:
    scores, labels = validation("mnist_mlp", 400)
    by_logits = fit_profile(scores, labels)
    p = softmax(scores.astype(float), axis=1)
    by_probabilities = fit_profile(p, labels, kind="probabilities")
    np.testing.assert_allclose(by_probabilities.rows(p), by_logits.rows(scores), atol=1e-4)


def test_progress_is_told_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    scores, labels = validation("mnist_mlp", 200)
    fit_profile(scores, labels, progress=lambda done, total: told.append((done, total)))
    assert told[0] == (1, 900)
    assert told[-1] == (900, 900)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_auto_calibration_is_named_in_the_profile() -> None:
    scores, labels = validation("cifar10_resnet20", 2000)
    assert fit_profile(scores, labels, calibration="auto").calibrator.method != "none"


class Frame:
    """Something like a data frame."""

    columns = ("a", "b")


def test_classes_of_whole_floats_are_matched_by_value() -> None:
    scores, labels = validation("mnist_mlp", 500)
    turned = scores[:, ::-1]
    zero: Any = np.int64(0)
    names = [float(j) for j in range(9, -1, -1)]
    by_float = fit_profile(turned, labels.astype(float), classes=names)
    by_int = fit_profile(turned, labels, classes=list(range(9, -1, -1)), seed=zero)
    assert by_float.fingerprint == by_int.fingerprint
    assert by_float.accuracy > 0.9


LOGITS = [[1.0, -1.0], [-1.0, 2.0], [2.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"labels": [0, 0, 0, 0]}, "labels: all 4 are '0'"),
        ({"labels": [0, 1, 2, 1]}, "'2' is no class"),
        ({"labels": [0, 1, -1, 1]}, "'-1' is no class"),
        ({"labels": [0, 1]}, "2 labels for 4 rows"),
        ({"labels": [[0, 1, 0, 1]]}, "2 dimensions, not 1"),
        ({"labels": ["a", "b", "a", "c"], "classes": ["a", "b"]}, "'c' is no class.*a, b"),
        ({"labels": [0, 1, 0, 2], "classes": ["a", "b"]}, "label 2 of row 3 is out of range"),
        ({"labels": [0, 1, 0, 0.5]}, "label 0.5 of row 3 is no class or column"),
        ({"labels": [0, 1, 0, np.nan]}, "label nan of row 3 is no class or column"),
        ({"labels": [0, 1, 0, 1], "classes": ["a", "a"]}, "'a' stands 2 times"),
        ({"labels": [0, 1, 0, 1], "classes": ["a", "b", "c"]}, "2 columns.*3 classes|classes"),
        ({"labels": [0, 1, 0, 1], "kind": "odds"}, "kind: 'odds' is unknown"),
        ({"labels": [0, 1, 0, 1], "calibration": "Platt"}, "calibration: 'Platt' is unknown"),
        ({"labels": [0, 1, 0, 1], "seed": -1}, "seed: -1"),
        ({"labels": [0, 1, 0, 1], "seed": "x"}, "seed: 'x'"),
        ({"labels": [0, 1, 0, 1], "scores": []}, "scores: there are none"),
        ({"labels": [0, 1, 0, 1], "scores": [1.0, 2.0]}, "scores: not rows"),
        ({"labels": [0, 1], "scores": [[0.4, 0.6], [1.0, 0.0]]}, 'kind="probabilities"'),
        ({"labels": [0, 1], "scores": [[0.4, np.nan], [1.0, 0.0]]}, "row 0: .*nan"),
        ({"labels": [0, 0], "scores": [[1.0], [2.0]]}, "at least two"),
        ({"labels": [0, 1, 0, 1], "scores": np.eye(4, 3) * 2}, "no validation row of class '2'"),
        ({"labels": [0, 1], "scores": np.eye(2, 3) * 2}, "2 rows for 3 classes"),
        ({"labels": [0, 1, 0, 1e300]}, "label 1e\\+300 of row 3 is no class"),
        ({"labels": [0, 1, 0, np.inf]}, "label inf of row 3 is no class"),
        ({"labels": [[0], [1, 0]]}, "labels: not one for each row"),
        ({"labels": [0, 1], "scores": None}, "a NoneType is no batch"),
        ({"labels": [0, 1], "scores": {"a": 1}}, "a dict is no batch"),
        ({"labels": [0, 1], "scores": np.float64(3)}, "is no batch"),
        ({"labels": [0, 1], "scores": np.array(3.0)}, "is no batch"),
        ({"labels": [0, 1, 0, 1], "classes": 5}, "classes: 5; give a list"),
        ({"labels": [0, 1, 0, 1], "classes": "ab"}, "classes: 'ab'; give a list"),
        ({"labels": [0, 1, 0, 1], "scores": Frame()}, "a Frame has no rows yet"),
    ],
)
def test_unusable_validation_data_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=f"(?s){says}"):
        fit_profile(**({"scores": LOGITS} | arguments))


def test_a_class_of_one_row_is_enough() -> None:
    rng = np.random.default_rng(0)
    labels = np.array([0] * 40 + [1] * 40 + [2])
    profile = fit_profile(3 * np.eye(3)[labels] + rng.normal(size=(81, 3)), labels)
    assert profile.soft_prior.min() > 0


def test_a_class_never_predicted_has_no_precision_and_a_prior() -> None:
    labels = np.array([0] * 50 + [1] * 50 + [2] * 5)
    profile = fit_profile(5 * np.eye(3)[[*labels[:100], *[0] * 5]], labels, calibration="none")
    assert np.isnan(profile.precisions[2])
    assert profile.soft_prior[2] > 0
    assert "nan" in str(profile)
