"""The connector as operators see it: a port, notices, and errors of security."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stream_leip_connectors.config import KafkaSettings, WrongUsage
from stream_leip_connectors.kafka import KafkaMonitor
from stream_leip_connectors.loading import load

from stream_leip import Adaptive, Monitor, Tumbling
from tests.commands import run
from tests.kafka.certificates import PASSWORD, Secured
from tests.kafka.streams import Running, settings
from tests.kafka.topics import read, write
from tests.strategies import make_profile
from tests.test_events import plain
from tests.test_metrics import get, samples_of, value
from tests.test_notifying import receiving, until

SOURCE = np.array([0.5, 0.3, 0.2])
PROFILE = make_profile(SOURCE)


def events(mix: list[float], n: int, seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    logits = 3 * np.eye(3)[rng.choice(3, n, p=mix)] + rng.normal(size=(n, 3)) + np.log(SOURCE)
    rows = np.exp(logits)
    rows /= rows.sum(axis=1, keepdims=True)
    return [{"key": b"shop", "value": plain({"scores": row.tolist()})} for row in rows]


@pytest.mark.needs_kafka
@pytest.mark.usefixtures("client")
def test_markers_of_transactions_are_no_lag(bootstrap: str, new_topic: Any) -> None:
    from kafka import KafkaProducer

    topic = new_topic()
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-feed")
    producer.init_transactions()
    monitor = KafkaMonitor(PROFILE, settings(bootstrap, topic), Tumbling(count=50))
    with Running(monitor) as running:
        for seed in range(2):
            producer.begin_transaction()
            for message in events([0.5, 0.3, 0.2], 100, seed):
                producer.send(topic, **message)
            producer.commit_transaction()
        running.until(lambda: monitor.total.events >= 200)
        running.until(lambda: monitor.worker is not None and monitor.worker.lags == {0: 0})
    producer.close()


@pytest.mark.needs_kafka
def test_a_port_and_notices(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic(2)
    stream = [*events([0.5, 0.3, 0.2], 2000, 0), *events([0.05, 0.3, 0.65], 3000, 1)]
    write(bootstrap, topic, [*stream, {"key": b"shop", "value": b"{"}])
    with receiving() as receiver:
        given = settings(bootstrap, topic, metrics_port=0, notify_url=receiver.url)
        monitor = KafkaMonitor(PROFILE, given, Adaptive(every=500))
        with Running(monitor) as running:
            running.until(lambda: monitor.total.events >= 5001)
            assert monitor.operation is not None
            assert monitor.operation.server is not None
            url = monitor.operation.server.url
            assert get(url + "/health") == (200, "ok\n")
            assert get(url + "/ready") == (200, "ok\n")
            until(lambda: '"shop"' in get(url + "/metrics")[1])
            until(lambda: "stream_leip_lag_events{" in get(url + "/metrics")[1])
            found = samples_of(get(url + "/metrics")[1])
        assert [body["kind"] for body in receiver.bodies] == ["raised", "settled"]
    (partition,) = {record.partition for record in read(bootstrap, topic)}
    at = {"topic": topic, "partition": str(partition)}
    assert value(found, "events_total", **at) == 5001
    assert value(found, "bad_events_total", **at) == 1
    assert value(found, "lag_events", **at) == 0
    assert value(found, "lag_seconds", **at) == 0
    assert value(found, "keys", **at) == 1
    assert value(found, "prior", **{"key": "shop", "class": "c2"}) == pytest.approx(0.65, abs=0.1)
    assert (value(found, "commit_seconds_count") or 0) >= 1
    assert value(found, "restore_seconds_count") == 1


@pytest.mark.needs_kafka
def test_a_notice_is_not_repeated_after_a_restart(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic(1)
    stream = [*events([0.5, 0.3, 0.2], 2000, 0), *events([0.05, 0.3, 0.65], 3000, 1)]
    alone = Monitor(PROFILE, Adaptive(every=500))
    rows = np.array([json.loads(each["value"])["scores"] for each in stream])
    updates = alone.update_many(rows)
    raised = next(update.last for update in updates if (update.alarm or {}).get("raised"))
    assert raised is not None
    parts = [stream[: raised + 10], stream[raised + 10 :]]
    with receiving() as receiver:
        given = settings(bootstrap, topic, notify_url=receiver.url)
        for part in parts:
            write(bootstrap, topic, part)
            monitor = KafkaMonitor(PROFILE, given, Adaptive(every=500))
            with Running(monitor) as running:
                running.until(lambda: monitor.total.events >= len(part))  # noqa: B023
        # The second process knows what the first told, and so that it settled.
        assert [body["kind"] for body in receiver.bodies] == ["raised", "settled"]


@pytest.mark.needs_kafka
def test_adopting_tells_nothing_again(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic(1)
    stream = [*events([0.5, 0.3, 0.2], 1000, 0), *events([0.05, 0.3, 0.65], 1500, 1)]
    with receiving() as receiver:
        given = settings(bootstrap, topic, notify_url=receiver.url)
        for part, every in ((stream[:1200], 500), (stream[1200:], 400)):
            write(bootstrap, topic, part)
            monitor = KafkaMonitor(PROFILE, given, Adaptive(every=every), adopt=True)
            with Running(monitor) as running:
                running.until(lambda: monitor.total.events >= len(part))  # noqa: B023
        # The last update of the first says "raised" once more.
        bodies = receiver.bodies
        assert "raised" in [body["kind"] for body in bodies]
        assert len({body["id"] for body in bodies}) == len(bodies)


@pytest.mark.needs_kafka
def test_the_connector_with_a_password_and_tls(secured: Secured, new_topic: Any) -> None:
    topic = new_topic(1)
    write(secured.broker.bootstrap, topic, events([0.5, 0.3, 0.2], 300, 0))
    given = settings(
        secured.broker.address("sasl_tls"),
        topic,
        security_protocol="SASL_SSL",
        username="alice",
        password=PASSWORD,
        ca_file=secured.authority.file,
    )
    monitor = KafkaMonitor(PROFILE, given, Tumbling(count=100))
    with Running(monitor) as running:
        running.until(lambda: monitor.total.events >= 300)
    assert len(read(secured.broker.bootstrap, f"{topic}-priors")) == 3


@pytest.mark.needs_kafka
@pytest.mark.parametrize("command", ["run", "reset"])
def test_a_wrong_password_is_one_line_and_exit_code_1(
    secured: Secured, tmp_path: Path, command: str
) -> None:
    PROFILE.save(tmp_path / "profile.json")
    (tmp_path / "password").write_text("open barley\n")
    done = run(
        "kafka",
        command,
        *["--bootstrap", secured.broker.address("sasl"), "--security-protocol", "SASL_PLAINTEXT"],
        *["--username", "alice", "--password-file", "password"],
        *(["--yes"] if command == "reset" else []),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "the broker does not know this username with this password" in done.stderr
    assert "barley" not in done.stderr + done.stdout


def test_secrets_come_from_the_environment_and_are_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "USERNAME": "alice",
        "PASSWORD": PASSWORD,
        "NOTIFY_URL": "https://chat/hook/sesame",
    }.items():
        monkeypatch.setenv(f"STREAM_LEIP_KAFKA_{name}", text)
    found = load(KafkaSettings, {}).values
    assert found.client_options()["sasl_plain_password"] == PASSWORD
    done = run("config", "show", cwd=tmp_path)
    assert "STREAM_LEIP_KAFKA_PASSWORD" in done.stdout
    assert "sesame" not in done.stdout + done.stderr + json.dumps(found.model_dump(mode="json"))
    monkeypatch.delenv("STREAM_LEIP_KAFKA_USERNAME")
    with pytest.raises(WrongUsage, match="username: SASL_SSL needs one, and a password") as caught:
        load(KafkaSettings, {})
    assert "sesame" not in str(caught.value)
