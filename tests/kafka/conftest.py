"""One broker for all tests, and topics that no other test has.

STREAM_LEIP_TEST_BROKER=host:port tests against a broker of your own.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stream_leip_connectors.kafka.local import LocalBroker

from tests.kafka.certificates import Secured

NewTopic = Callable[..., str]


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The tests' broker, with listeners for passwords and TLS."""
    secured = Secured.make(tmp_path_factory.mktemp("certificates"))
    with secured.broker:
        yield secured


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the tests' broker is."""
    own = os.environ.get("STREAM_LEIP_TEST_BROKER")
    return own or str(request.getfixturevalue("secured").broker.bootstrap)


@pytest.fixture(params=["kafka-python", "confluent"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The clients that the connector can use, one after the other; commands take it too."""
    monkeypatch.setenv("STREAM_LEIP_KAFKA_CLIENT", request.param)
    return str(request.param)


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    """A broker for one test alone, which may stop and kill it."""
    with LocalBroker() as mine:
        yield mine


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> Iterator[Any]:
    from kafka import KafkaAdminClient

    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    yield client
    client.close()


@pytest.fixture
def new_topic(admin: Any) -> NewTopic:
    """Makes a topic with a name of its own: new_topic(), new_topic(8), new_topic(1, {...})."""

    def make(partitions: int = 1, configs: dict[str, str] | None = None) -> str:
        from kafka.admin import NewTopic as Topic

        name = f"test-{uuid.uuid4().hex[:12]}"
        admin.create_topics([Topic(name, partitions, 1, topic_configs=configs or {})])
        return name

    return make
