"""The JSON Schemas of docs/, against what is written and read."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from stream_leip_connectors.events import DeadLetter, EventDecoder, Fields, encode_update

from stream_leip import Fading, KeyedMonitor, Monitor, Sliding, Tumbling, Update, fit_profile
from tests.strategies import make_profile

DOCS = Path(__file__).parents[1] / "docs"
PROFILE = make_profile(np.array([0.5, 0.3, 0.2]))


def validator(name: str) -> Any:
    schema = json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def updates() -> list[Update]:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet([0.3, 0.3, 0.3], 400)
    times = 1.7e9 + np.arange(400) * 3.0
    times[200:] += 900
    found = []
    for window in (Tumbling(count=100), Sliding(count=200, every=50), Fading(100)):
        found += Monitor(PROFILE, window, max_rows=60).update_many(rows)
    found += Monitor(PROFILE, Tumbling(seconds=60, emit_empty=True)).update_many(rows, times)
    found += KeyedMonitor(PROFILE, Tumbling(count=50)).update_many(["a", "b"] * 200, rows)
    found.append(Monitor(PROFILE).estimate())
    return found


def test_every_update_is_as_its_schema_says() -> None:
    schema = validator("update")
    for update in updates():
        schema.validate(json.loads(encode_update(update)))


def test_what_the_page_says_of_adapting_is_what_a_monitor_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=600)
    logits = 2.0 * np.eye(3)[labels] + rng.normal(size=(600, 3)) + [0.5, 0.0, 0.0]
    profile = fit_profile(logits, labels, calibration="BCTS")
    profile.save(tmp_path / "profile.json")
    monitor = Monitor(profile, Tumbling(count=300))
    (update,) = monitor.update_many(logits[:300])
    # As docs/wire.md has it, with what is in the files alone.
    held = json.loads((tmp_path / "profile.json").read_text())["content"]["calibrator"]
    told = json.loads(encode_update(update))
    made = np.exp(np.array(held["scale"]) * logits[300:] + np.array(held["bias"]))
    made /= made.sum(axis=1, keepdims=True)
    source = np.array(told["prior"]) / np.array(told["weights"])
    made *= np.array(told["adapting_prior"]) / source
    made /= made.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(made, monitor.adapt(logits[300:]), atol=1e-6)


def test_the_schema_has_every_field_of_an_update() -> None:
    names = {"schema", *(field.name for field in fields(Update))}
    schema = validator("update").schema
    # The connector adds the model, where a topic has several.
    assert set(schema["properties"]) == names | {"model"}
    assert set(schema["required"]) == names
    assert set(updates()[0].to_dict()) == names


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"prior": [1.5, -0.5, 0.0]},
        {"prior": "0.5"},
        {"n": 1.5},
        {"classes": ["a"]},
        {"more": 1},
        {"alarm": {"value": 1.0}},
    ],
)
def test_other_things_are_no_updates(change: dict[str, Any]) -> None:
    update = updates()[0].to_dict() | change
    assert not validator("update").is_valid(update)


def test_alarm_and_check_as_the_design_has_them() -> None:
    alarm = {"value": 3.2, "warning": True, "raised": False, "since": None, "classes": ["a"]}
    check = {"p": 0.2, "flagged": False, "validation_share": 0.1, "message": "fine"}
    low = {"low": [0.1, 0.2, 0.3], "high": [0.2, 0.3, 0.5], "memory": 812.5, "changed_at": 90}
    validator("update").validate(updates()[0].to_dict() | low | {"alarm": alarm, "check": check})


@pytest.mark.parametrize(
    "event",
    [
        {"scores": [0.5, 0.3, 0.2]},
        {"scores": {"c0": 0.9}, "time": 1.7e9, "key": "a", "id": 7, "more": None},
        {"scores": {"c0": 0.5, "c1": 0.3, "c2": 0.2}, "time": "2026-01-05T08:00:00Z", "key": 3},
    ],
)
def test_events_of_the_schema_are_decoded(event: dict[str, Any]) -> None:
    validator("event").validate(event)
    given = Fields(time="time" if "time" in event else None, key="key" if "key" in event else None)
    assert not EventDecoder(PROFILE, given).decode([json.dumps(event).encode()]).bad


@pytest.mark.parametrize(
    "event", [{}, {"scores": []}, {"scores": {}}, {"scores": "x"}, {"scores": [1, None, 0]}, [1]]
)
def test_what_is_no_event_by_the_schema_is_none(event: Any) -> None:
    assert not validator("event").is_valid(event)
    assert EventDecoder(PROFILE).decode([json.dumps(event).encode()]).bad


@pytest.mark.parametrize("original", [b"{", b"\xff", b""])
@pytest.mark.parametrize("where", [{"line": 1}, {"row": 0}])
def test_dead_letters(original: bytes, where: dict[str, int]) -> None:
    letter = DeadLetter(original, "why", {"source": "x", **where})
    validator("dead-letter").validate(json.loads(letter.encode()))
