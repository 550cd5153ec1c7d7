"""Passwords and TLS, on listeners of the real broker."""

import gc
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr, ValidationError
from stream_leip_connectors.events import encode_update
from stream_leip_connectors.kafka.clients import make_client
from stream_leip_connectors.kafka.clients.confluent_reaching import check_reach as reach
from stream_leip_connectors.kafka.connection import Connection
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.listeners import MECHANISMS, Listeners
from stream_leip_connectors.kafka.live import LivePrior
from stream_leip_connectors.kafka.local import LocalBroker
from stream_leip_connectors.kafka.reaching import check_reach
from stream_leip_connectors.security import ClientName, Security

from stream_leip import InputError, Monitor, Tumbling
from tests.kafka.certificates import PASSWORD, Secured
from tests.kafka.topics import read, write
from tests.strategies import make_profile

# kafka-python leaves sockets of connections that failed to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <:ResourceWarning")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    gc.collect()


def with_password(secured: Secured, **changes: Any) -> Security:
    given: dict[str, Any] = {
        "security_protocol": "SASL_PLAINTEXT",
        "username": "alice",
        "password": PASSWORD,
    }
    return Security(**given | changes)


def with_certificate(secured: Secured, **changes: Any) -> Security:
    given: dict[str, Any] = {
        "security_protocol": "SSL",
        "ca_file": secured.authority.file,
        "certificate_file": secured.certificate,
    }
    return Security(**given | changes)


def make_topic(broker: LocalBroker, name: str) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic(name, 1, 1)])
    admin.close()


@pytest.mark.needs_kafka
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", ["sasl", "sasl_tls"])
def test_a_round_trip_with_a_password(secured: Secured, mechanism: Any, listener: str) -> None:
    security = with_password(secured, sasl_mechanism=mechanism)
    if listener == "sasl_tls":
        security = with_password(
            secured,
            sasl_mechanism=mechanism,
            security_protocol="SASL_SSL",
            ca_file=secured.authority.file,
        )
    options, address = security.client_options(), secured.broker.address(listener)
    topic = f"{listener}-{mechanism}"
    make_topic(secured.broker, topic)
    check_reach(address, options)
    write(address, topic, [{"value": b"hello"}], **options)
    assert [record.value for record in read(address, topic, **options)] == [b"hello"]


@pytest.mark.needs_kafka
def test_a_round_trip_with_certificates(secured: Secured) -> None:
    options, address = with_certificate(secured).client_options(), secured.broker.address("tls")
    make_topic(secured.broker, "priors")
    profile = make_profile(np.array([0.5, 0.3, 0.2]))
    rows = np.random.default_rng(0).dirichlet([3.0, 0.3, 0.3], 100)
    (update,) = Monitor(profile, Tumbling(count=100)).update_many(rows)
    write(address, "priors", [{"value": encode_update(update)}], **options)
    with LivePrior(profile, address, "priors", client=options) as live:
        assert live.update() == json.loads(encode_update(update))


@pytest.mark.needs_kafka
@pytest.mark.parametrize("listener", ["sasl", "sasl_tls", "tls"])
def test_a_round_trip_by_confluent(secured: Secured, listener: str) -> None:
    security = with_certificate(secured) if listener == "tls" else with_password(secured)
    if listener == "sasl_tls":
        authority = secured.authority.file
        security = with_password(secured, security_protocol="SASL_SSL", ca_file=authority)
    address = secured.broker.address(listener)
    client = make_client("confluent", Connection(address, security.client_options("confluent")))
    client.check_reach()
    admin = client.admin()
    admin.create(f"confluent-{listener}", 1, {})
    assert admin.partitions([f"confluent-{listener}", "nowhere"]) == {f"confluent-{listener}": 1}
    admin.close()
    write(secured.broker.bootstrap, f"confluent-{listener}", [{"value": b"hello"}])
    reader = client.reader()
    reader.start(f"confluent-{listener}", {0: 0})
    while reader.position(0) < 1:
        for records in reader.poll(1.0).values():
            assert records.values == [b"hello"]
    reader.close()


def wrong(secured: Secured, case: str) -> tuple[str, Security]:
    stranger = secured.stranger
    return {
        "password": ("sasl", with_password(secured, password="open sesame")),
        "username": ("sasl", with_password(secured, username="bob", sasl_mechanism="PLAIN")),
        "authority": ("tls", with_certificate(secured, ca_file=stranger.file)),
        "certificate": ("tls", with_certificate(secured, certificate_file=stranger.issue("x@y.z"))),
        "no certificate": ("tls", with_certificate(secured, certificate_file=None)),
        "tls to plain": ("plain", with_certificate(secured)),
        "plain to tls": ("tls", Security()),
        "plain to sasl": ("sasl", Security()),
    }[case]


@pytest.mark.needs_kafka
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("password", "does not know this username with this password"),
        ("username", "does not know this username with this password"),
        ("authority", "certificate is not to be trusted; is ca_file the authority"),
        ("certificate", "does not accept our certificate, or wants one"),
        ("no certificate", "does not accept our certificate, or wants one"),
        ("tls to plain", "does not speak TLS at this port"),
        ("plain to tls", "somebody answers, but not as a broker would"),
        ("plain to sasl", "somebody answers, but not as a broker would"),
    ],
)
def test_one_clear_error(
    secured: Secured,
    case: str,
    reason: str,
    client: ClientName,
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener, security = wrong(secured, case)
    address = secured.broker.address(listener)
    caplog.set_level(logging.WARNING)
    options = security.client_options(client)
    tries = {
        "kafka-python": lambda: check_reach(address, options, timeout=1.5),
        "confluent": lambda: reach(Connection(address, options), timeout=1.5),
    }
    with pytest.raises(BrokerError) as caught:
        tries[client]()
    assert str(caught.value).startswith(f"{address} cannot be reached: ")
    assert reason in str(caught.value)
    assert "sesame" not in str(caught.value) + caplog.text
    assert not caplog.records


@pytest.mark.parametrize(
    ("address", "reason"),
    [("127.0.0.1:1", "nobody listens there"), ("no-such-host.invalid:9092", "the name is unknown")],
)
def test_nobody_there(address: str, reason: str) -> None:
    with pytest.raises(BrokerError, match=f"^{address} cannot be reached: {reason}"):
        check_reach(address, timeout=1.0)


def test_a_password_is_read_from_a_file_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\r\nsecond line\n")
    security = Security(security_protocol="SASL_PLAINTEXT", username="a", password_file=file)
    assert security.client_options()["sasl_plain_password"] == PASSWORD
    shown = Security(security_protocol="SASL_PLAINTEXT", username="a", password=SecretStr(PASSWORD))
    listeners = Listeners({"alice": PASSWORD})
    for text in (repr(shown), str(shown), shown.model_dump_json(), repr(listeners)):
        assert PASSWORD not in text
    file.write_text("\n")
    with pytest.raises(InputError, match=r"password_file: the first line of .* is empty"):
        security.client_options()
    file.unlink()
    with pytest.raises(InputError, match=r"password_file: .*: no such file"):
        security.client_options()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"security_protocol": "SASL_SSL"}, "username: SASL_SSL needs one, and a password"),
        (
            {"security_protocol": "SASL_SSL", "username": "a"},
            "password: SASL_SSL needs one; set it .*, or password_file",
        ),
        ({"username": "a", "password": PASSWORD}, "username: it is not used with .*PLAINTEXT"),
        ({"ca_file": "x"}, "ca_file: it is not used with .* set that to SSL or SASL_SSL"),
        (
            {
                "security_protocol": "SASL_SSL",
                "username": "a",
                "password": PASSWORD,
                "password_file": "x",
            },
            "password_file: there is a password too",
        ),
    ],
)
def test_settings_that_do_not_fit(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says) as caught:
        Security(**given)
    assert PASSWORD not in str(caught.value)


def test_listeners_that_cannot_be() -> None:
    with pytest.raises(InputError, match="users: the name 'a b' or its password"):
        Listeners({"a b": "x"})
    with pytest.raises(InputError, match="authority: clients show certificates over TLS"):
        Listeners(authority=Path("ca.pem"))
    with pytest.raises(InputError, match="listener: there is no 'tls'; there are plain"):
        LocalBroker().address("tls")
