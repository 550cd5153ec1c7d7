"""Brokers that are away: said once, then every minute."""

import logging

import pytest
from stream_leip_connectors.kafka.client import ClientFailed
from stream_leip_connectors.kafka.clients.kafka_python_errors import translated
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.outage import Displacement, Outage


def test_said_once_then_every_minute_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    outage = Outage(lambda: now[0])
    with caplog.at_level(logging.WARNING, "stream_leip.kafka"):
        outage.over()
        pauses = []
        for second in range(130):
            now[0] = float(second)
            outage.say("nobody there")
            pauses.append(outage.pause())
        outage.over()
        outage.over()
    assert [record.message for record in caplog.records] == [
        "Kafka is away, or not ready: nobody there. Waiting; nothing is lost",
        "still waiting for Kafka, for 60 s now: nobody there",
        "still waiting for Kafka, for 120 s now: nobody there",
        "Kafka is back after 129.0 s",
    ]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses == sorted(pauses)
    assert max(pauses) == 5.0


def test_displaced_twice_without_a_commit_is_fenced() -> None:
    now = [0.0]
    displacement = Displacement("one", lambda: now[0])
    assert not displacement.again()
    displacement.over()
    assert not displacement.again()
    now[0] = 299.0
    assert displacement.again()
    now[0] = 600.0
    assert not displacement.again()


@pytest.mark.parametrize(
    ("bootstrap", "meaning", "words"),
    [
        ("127.0.0.1:1", "retry", "127.0.0.1:1 does not answer"),
        ("127.0.0.1:1,localhost:1", "retry", "does not answer"),
        ("nowhere", "refused", "'nowhere' is not host:port"),
    ],
)
def test_nobody_there(bootstrap: str, meaning: str, words: str) -> None:
    with pytest.raises(ClientFailed, match=words) as failed:
        Connection(bootstrap).arguments()
    assert failed.value.meaning == meaning


def test_a_timeout_without_words_has_some() -> None:
    kafka = pytest.importorskip("kafka")
    for error, says in (
        (kafka.errors.KafkaTimeoutError(None), "^no answer in time$"),
        (kafka.errors.KafkaTimeoutError("why"), "why"),
    ):
        with pytest.raises(ClientFailed, match=says) as found, translated(kafka):
            raise error
        assert found.value.meaning == "retry"


def test_who_was_fenced_before_is_fenced_still() -> None:
    kafka = pytest.importorskip("kafka")
    # As a producer says it on its next call; taken for an outage, the zombie would come back.
    later = kafka.errors.KafkaError("Cannot send", kafka.errors.ProducerFencedError())
    with pytest.raises(ClientFailed) as found, translated(kafka):
        raise later
    assert found.value.meaning == "fenced"
