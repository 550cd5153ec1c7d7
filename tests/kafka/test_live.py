"""LivePrior on the real broker."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from stream_leip_connectors.events import encode_update
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.live import LivePrior
from stream_leip_connectors.kafka.local import LocalBroker

from stream_leip import InputError, KeyedMonitor, Monitor, Tumbling, Update
from tests.kafka.corrupting import batches, flip_a_byte, segment
from tests.kafka.topics import write
from tests.strategies import make_profile

pytestmark = pytest.mark.needs_kafka

PROFILE = make_profile(np.array([0.5, 0.3, 0.2]))
SCORES = np.random.default_rng(1).dirichlet([1.0] * 3, 5)


def some_updates(keys: list[str], shift: float = 3.0) -> list[Update]:
    rows = np.random.default_rng(0).dirichlet([shift, 0.3, 0.3], 100 * len(keys))
    return KeyedMonitor(PROFILE, Tumbling(count=100)).update_many(keys * 100, rows)


def send(bootstrap: str, topic: str, updates: list[Update]) -> None:
    write(
        bootstrap,
        topic,
        [{"key": (each.key or "").encode(), "value": encode_update(each)} for each in updates],
    )


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def by_hand(update: Update, scores: Any) -> Any:
    """As docs/wire.md tells people of other languages to do it."""
    said = json.loads(encode_update(update))
    weighed = scores * np.array(said["adapting_prior"]) / PROFILE.soft_prior
    return weighed / weighed.sum(axis=1, keepdims=True)


def test_it_has_what_is_there_and_takes_what_comes(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic(3)
    first, second = some_updates(["a", "b"])
    send(bootstrap, topic, [first])
    with LivePrior(PROFILE, bootstrap, topic) as live:
        assert live.keys == ["a"]
        np.testing.assert_allclose(live.adapt(SCORES, "a"), by_hand(first, SCORES), atol=1e-6)
        np.testing.assert_allclose(live.adapt(SCORES, "b"), SCORES, atol=1e-6)
        assert live.age("b") is None
        send(bootstrap, topic, [second])
        until(lambda: live.age("b") is not None)
        np.testing.assert_allclose(live.adapt(SCORES, "b"), by_hand(second, SCORES), atol=1e-6)
        assert live.update("b") == json.loads(encode_update(second))
        write(bootstrap, topic, [{"key": b"a"}])  # a tombstone
        until(lambda: live.keys == ["b"])
        np.testing.assert_array_equal(live.prior("a"), PROFILE.soft_prior)
        assert (live.error, live.refused) == (None, 0)


def test_a_stream_without_keys_and_the_newest_of_many(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic()
    rows = np.random.default_rng(0).dirichlet([3.0, 0.3, 0.3], 1000)
    updates = Monitor(PROFILE, Tumbling(count=10)).update_many(rows)
    send(bootstrap, topic, updates)
    with LivePrior(PROFILE, bootstrap, topic) as live:
        assert updates[-1].adapting_prior is not None
        np.testing.assert_array_equal(live.prior(), updates[-1].adapting_prior)


@pytest.mark.parametrize("exists", [True, False])
def test_an_empty_topic_and_none_at_all(bootstrap: str, new_topic: Any, exists: bool) -> None:
    topic = new_topic() if exists else "test-not-yet"
    with LivePrior(PROFILE, bootstrap, topic) as live:
        np.testing.assert_allclose(live.adapt(SCORES), SCORES, atol=1e-6)
        assert (live.keys, live.update(), live.age()) == ([], None, None)


def test_old_updates_are_not_used(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic()
    (update,) = some_updates(["a"])
    send(bootstrap, topic, [update])
    ahead = [0.0]
    with LivePrior(
        PROFILE, bootstrap, topic, max_age=60, clock=lambda: time.time() + ahead[0]
    ) as live:
        np.testing.assert_array_equal(live.prior("a"), update.adapting_prior)
        age = live.age("a")
        assert age is not None
        assert age < 60
        ahead[0] = 100.0
        np.testing.assert_array_equal(live.prior("a"), PROFILE.soft_prior)
        assert live.update("a") is not None  # there to look at
    with pytest.raises(InputError, match="max_age: 0; use seconds above zero"):
        LivePrior(PROFILE, bootstrap, topic, max_age=0)


def test_what_is_no_update_of_the_profile(
    bootstrap: str, new_topic: Any, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    good = some_updates(["a"])[0]
    said = good.to_dict()
    other = make_profile(np.array([0.2, 0.3, 0.5]))
    rows = np.random.default_rng(0).dirichlet([3.0, 0.3, 0.3], 100)
    (elsewhere,) = Monitor(other, Tumbling(count=100)).update_many(rows)
    bad: list[Any] = [
        b"{",
        b"[]",
        encode_update(elsewhere),
        json.dumps(said | {"schema": 2}).encode(),
        json.dumps(said | {"classes": ["x", "y", "z"]}).encode(),
        json.dumps(said | {"adapting_prior": [1.0]}).encode(),
        json.dumps(said | {"adapting_prior": [2.0, -0.5, -0.5]}).encode(),
        json.dumps(said | {"weights": [1.0]}).encode(),
    ]
    write(bootstrap, topic, [{"value": encode_update(good)}, *({"value": each} for each in bad)])
    with LivePrior(PROFILE, bootstrap, topic) as live:
        assert live.refused == len(bad)
        lines = [each for each in caplog.messages if "no updates of this profile" in each]
        assert len(lines) == 1  # a topic may have thousands
        assert "by now 1; one, at offset 1: " in lines[0]
        np.testing.assert_array_equal(live.prior("a"), good.adapting_prior)


def test_asyncio_goes_on_meanwhile(bootstrap: str, new_topic: Any) -> None:
    topic = new_topic()
    (update,) = some_updates(["a"])
    send(bootstrap, topic, [update])
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    async def use() -> Any:
        ticking = asyncio.create_task(tick())
        async with LivePrior(PROFILE, bootstrap, topic) as live:
            adapted = live.adapt(SCORES, key="a")
        ticking.cancel()
        return adapted

    np.testing.assert_allclose(asyncio.run(use()), by_hand(update, SCORES), atol=1e-6)
    assert ticks > 5


def test_a_broker_that_goes_and_comes_back(broker: LocalBroker) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic("priors", 1, 1)])
    admin.close()
    first, second = some_updates(["a", "b"])
    send(broker.bootstrap, "priors", [first])
    with LivePrior(PROFILE, broker.bootstrap, "priors") as live:
        broker.kill()
        np.testing.assert_array_equal(live.prior("a"), first.adapting_prior)
        broker.start()
        send(broker.bootstrap, "priors", [second])
        until(lambda: live.age("b") is not None)
        assert live.refused == 0


def test_a_batch_that_cannot_be_read_is_passed_over(broker: LocalBroker) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic("priors", 1, 1)])
    admin.close()
    updates = some_updates(["a", "b", "c"])
    for update in updates:
        send(broker.bootstrap, "priors", [update])
    broker.stop()
    file = segment(broker.folder, "priors")
    data = bytearray(file.read_bytes())
    flip_a_byte(data, batches(bytes(data))[1])
    file.write_bytes(data)
    broker.start()
    with LivePrior(PROFILE, broker.bootstrap, "priors") as live:
        until(lambda: live.age("c") is not None)
        assert live.keys == ["a", "c"]
        assert live.error is None
        np.testing.assert_array_equal(live.prior("b"), PROFILE.soft_prior)


def test_nobody_there() -> None:
    begun = time.monotonic()
    with (
        pytest.raises(BrokerError, match=r"priors at 127.0.0.1:1 could not be read .* broker up\?"),
        LivePrior(PROFILE, "127.0.0.1:1", "priors", timeout=1.0),
    ):
        pass
    assert time.monotonic() - begun < 15
