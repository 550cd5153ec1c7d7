"""Several models on one topic: each as if it had the topic to itself."""

from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from stream_leip_connectors.kafka import KafkaMonitor
from stream_leip_connectors.kafka.errors import StateError
from stream_leip_connectors.kafka.live import LivePrior

from stream_leip import InputError, KeyedMonitor, Sliding, SourceProfile
from tests.commands import run
from tests.kafka.conftest import NewTopic
from tests.kafka.streams import Running, draw, in_order, settings
from tests.kafka.topics import read, write
from tests.strategies import make_profile
from tests.streams import PROFILE

pytestmark = pytest.mark.needs_kafka

WINDOW = Sliding(count=60, every=30)
OTHER = make_profile(PROFILE.soft_prior[::-1].copy())
MODELS = {"v7": PROFILE, "v8": OTHER}
SCHEMA = Path(__file__).parents[2] / "docs" / "update.schema.json"


def feed(bootstrap: str, topic: str, seed: int, by: str, names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(100 + seed)  # not that of the keys
    sent: list[dict[str, Any]] = []
    for key, row, at in zip(*draw(seed, 1200, 4), strict=True):
        model = names[rng.integers(len(names))]
        value: dict[str, Any] = {"scores": row.tolist()}
        headers = []
        if by == "field":
            value["model"] = model
        else:
            headers = [("model", model.encode())]
        sent.append(
            {
                "key": key.encode(),
                "value": msgspec.json.encode(value),
                "headers": headers,
                "timestamp_ms": int(at),
            }
        )
    write(bootstrap, topic, sent)


def name_of(record: Any) -> str:
    return str(dict(record.headers).get("model", b"").decode()) or str(
        msgspec.json.decode(record.value)["model"]
    )


def alone(bootstrap: str, topic: str, model: str, profile: SourceProfile) -> list[dict[str, Any]]:
    """What a monitor makes of one model's events, partition by partition."""
    partitions: dict[int, list[Any]] = {}
    for record in read(bootstrap, topic):
        if name_of(record) == model:
            partitions.setdefault(record.partition, []).append(record)
    found: list[dict[str, Any]] = []
    for records in partitions.values():
        keyed = KeyedMonitor(profile, WINDOW)
        scores = np.array([msgspec.json.decode(record.value)["scores"] for record in records])
        updates = keyed.update_many(
            [record.key.decode() for record in records],
            scores,
            np.array([record.timestamp for record in records]) / 1000.0,
        )
        found += [update.to_dict() for update in updates]
    return in_order(found)


def watched(bootstrap: str, topic: str, events: int, by: str, models: Any = None) -> None:
    given = settings(bootstrap, topic, **{f"model_{by}": "model"})
    monitor = KafkaMonitor(models or MODELS, given, WINDOW)
    with Running(monitor) as one:
        one.until(lambda: monitor.total.events >= events)


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("by", ["field", "header"])
def test_each_model_has_its_own_state(bootstrap: str, new_topic: NewTopic, by: str) -> None:
    topic = new_topic(2)
    for seed in range(2):  # the second run goes on where the first ended
        feed(bootstrap, topic, seed, by, ("v7", "v8", "v9"))
        watched(bootstrap, topic, 1200, by)
    records = read(bootstrap, f"{topic}-priors")
    schema = msgspec.json.decode(SCHEMA.read_bytes())
    updates = [msgspec.json.decode(record.value) for record in records]
    for record, update in zip(records, updates, strict=True):
        jsonschema.validate(update, schema)
        assert record.key.decode() == f"{update['model']}:{update['key']}"
    for model, profile in MODELS.items():
        mine = [update for update in updates if update["model"] == model]
        wanted = alone(bootstrap, topic, model, profile)
        assert len(wanted) > 20
        assert in_order([{k: v for k, v in each.items() if k != "model"} for each in mine]) == (
            msgspec.json.decode(msgspec.json.encode(wanted))
        )
    letters = read(bootstrap, f"{topic}-dead-letters")
    strangers = [record for record in read(bootstrap, topic) if name_of(record) == "v9"]
    assert sorted(letter.value for letter in letters) == sorted(each.value for each in strangers)
    reasons = {dict(letter.headers)["stream-leip.reason"] for letter in letters}
    assert reasons == {b"model: 'v9' is unknown; there are v7, v8 (--profile NAME=PATH)"}
    with LivePrior(OTHER, bootstrap, f"{topic}-priors", model="v8") as live:
        assert live.refused == 0
        assert sorted(map(str, live.keys)) == ["shop-0", "shop-1", "shop-2", "shop-3"]
    with LivePrior(OTHER, bootstrap, f"{topic}-priors") as live:
        assert live.refused == len(updates)


def test_models_come_but_do_not_go(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    feed(bootstrap, topic, 0, "field", ("v7", "v8"))
    watched(bootstrap, topic, 1200, "field", {"v7": PROFILE})
    feed(bootstrap, topic, 1, "field", ("v7", "v8"))
    watched(bootstrap, topic, 1200, "field")
    updates = [msgspec.json.decode(record.value) for record in read(bootstrap, f"{topic}-priors")]
    later = [each for each in updates if each["model"] == "v8"]
    assert min(each["sequence"] for each in later) == 0
    mine = in_order([each for each in updates if each["model"] == "v7"])
    wanted = alone(bootstrap, topic, "v7", PROFILE)
    assert [each["prior"] for each in mine] == [each["prior"] for each in wanted]
    with pytest.raises(StateError, match="the state of model 'v8', which no --profile names"):
        watched(bootstrap, topic, 1, "field", {"v7": PROFILE})
    unnamed = Running(KafkaMonitor(PROFILE, settings(bootstrap, topic), WINDOW))
    with pytest.raises(StateError, match="the state of several models, v7, v8"), unnamed:
        unnamed.until(lambda: unnamed.monitor.total.events >= 1)
    with pytest.raises(StateError, match="the state of profile"):
        watched(bootstrap, topic, 1, "field", {"v7": OTHER, "v8": OTHER})


def test_one_model_without_a_name_cannot_become_several(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(1)
    feed(bootstrap, topic, 0, "field", ("v7",))
    monitor = KafkaMonitor(PROFILE, settings(bootstrap, topic), WINDOW)
    with Running(monitor) as one:
        one.until(lambda: monitor.total.events >= 1200)
    with pytest.raises(StateError, match="the state of one model without a name"):
        watched(bootstrap, topic, 1, "field")


def test_events_that_name_no_model(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(1)
    scores = b'"scores": [0.2, 0.3, 0.5]'
    sent = [b"{%b}" % scores, b"{", b'{"model": null, %b}' % scores, b'{"model": [1], %b}' % scores]
    write(bootstrap, topic, [{"key": b"a", "value": each} for each in sent])
    watched(bootstrap, topic, 4, "field")
    letters = read(bootstrap, f"{topic}-dead-letters")
    assert [letter.value for letter in letters] == sent
    reasons = [dict(letter.headers)["stream-leip.reason"].decode() for letter in letters]
    assert "the field 'model' is missing" in reasons[0]
    assert "cannot be read" in reasons[1]


def test_settings_that_do_not_fit(tmp_path: Path) -> None:
    given = settings("localhost:9", "t", model_field="model")
    with pytest.raises(InputError, match="there is one profile"):
        KafkaMonitor(PROFILE, given)
    with pytest.raises(InputError, match="name one of them"):
        KafkaMonitor(MODELS, settings("localhost:9", "t"))
    with pytest.raises(InputError, match="'a:b' is no name for a model"):
        KafkaMonitor({"a:b": PROFILE}, given)
    PROFILE.save(tmp_path / "p.json")
    done = run("kafka", "run", "--profile", "p.json", "--profile", "q.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "several models need a name each" in done.stderr
    done = run("kafka", "run", "--profile", "a=p.json", "--profile", "b=p.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "Set model_field or model_header" in done.stderr
    given_twice = ["--model-field", "m", "--model-header", "m"]
    done = run("kafka", "run", "--profile", "a=p.json", *given_twice, cwd=tmp_path)
    assert "set one of them" in done.stderr
    named = ["--profile", "a=p.json", "--model-field", "m", "--bootstrap", "127.0.0.1:1"]
    done = run("kafka", "run", *named, "--wait", "0", cwd=tmp_path)
    assert "nobody listens there" in done.stderr
