"""Reaching a broker for the first time, and saying in one line why that failed.

kafka-python says only that it could not, and writes what happened to its log, again and again.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.errors import BrokerError, NobodyThere
from stream_leip_connectors.kafka.making import make

_PASSWORD = (
    "the broker does not know this username with this password; mend one of them, or the "
    "sasl_mechanism"
)
_NOBODY = "nobody listens there; is the broker up?"
_NO_NAME = "the name is unknown; is it spelt right?"
# Signs in the logs of kafka-python and, in small letters, of librdkafka; and what they mean.
_MEANINGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        (
            "SaslAuthenticationFailed",
            "invalid credentials",
            "IllegalSaslState",
            "SASL authentication error",
        ),
        _PASSWORD,
    ),
    (
        ("UnsupportedSaslMechanism",),
        "the broker does not offer this sasl_mechanism; choose another",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED", "certificate verify failed"),
        "the broker's certificate is not to be trusted; is ca_file the authority that signed it, "
        "and is the name in it the one you connect to?",
    ),
    (
        (
            *("BAD_CERTIFICATE", "CERTIFICATE_REQUIRED", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA"),
            *("bad certificate", "certificate required", "certificate unknown", "unknown ca"),
        ),
        "the broker does not accept our certificate, or wants one; set certificate_file and "
        "key_file to one that its authority signed",
    ),
    (
        (
            "WRONG_VERSION_NUMBER",
            "RECORD_LAYER_FAILURE",
            "UNEXPECTED_EOF",
            "_SSL",
            "PLAINTEXT broker",
        ),
        "the broker does not speak TLS at this port; choose another security_protocol, or its "
        "other port",
    ),
    (("Connection refused", "ECONNREFUSED"), _NOBODY),
    (
        ("DNS", "Failed to resolve", "gaierror", "Name or service", "nodename"),
        _NO_NAME,
    ),
)
_STRANGE = "somebody answers, but not as a broker would; is security_protocol the one of this port?"
# Seconds.
_ONE_TRY = 2.5
_HUNG_UP = re.compile(r"broker_version=\(.*Connection lost")


def check_reach(
    bootstrap: str, options: Mapping[str, Any] | None = None, *, timeout: float = 10.0
) -> None:
    """Connect once; BrokerError, with the reason and the remedy, if that fails.

    NobodyThere, which is one, where waiting may help.

    Parameters
    ----------
    bootstrap
        host:port of a broker, or several with commas between.
    options
        Of kafka-python's clients.
    timeout
        Seconds until it is given up.
    """
    kafka = extras.kafka()
    until = monotonic() + timeout
    said: list[str] = []
    while True:
        left = until - monotonic()
        try:
            with _overheard(said):
                client = make(
                    kafka.KafkaAdminClient,
                    bootstrap_servers=bootstrap.split(","),
                    **{**(options or {}), "bootstrap_timeout_ms": int(1000 * min(left, _ONE_TRY))},
                )
                client.close()
            return
        except kafka.errors.KafkaError as error:
            why, final = explain(said, str(error), sasl="sasl_mechanism" in (options or {}))
            if final or left <= _ONE_TRY:
                raise cannot_reach(bootstrap, why) from None
        except (ValueError, OSError) as error:  # a PEM file that is none, say
            raise BrokerError(f"{bootstrap} cannot be reached: {error}") from None


def cannot_reach(bootstrap: str, why: str) -> BrokerError:
    """What is raised in the end: NobodyThere, where waiting may help."""
    kind = NobodyThere if why in (_NOBODY, _NO_NAME) else BrokerError
    return kind(f"{bootstrap} cannot be reached: {why}")


def explain(said: list[str], error: str, *, sasl: bool) -> tuple[str, bool]:
    """Why a try failed, by what the client's log says, and whether no other try can do better."""
    told = "\n".join(said)
    # A broker may hang up before its answer to a wrong password is read; but it told its version.
    if sasl and _HUNG_UP.search(told):
        return _PASSWORD, True
    for signs, meaning in _MEANINGS:
        if any(sign in told for sign in signs):
            return meaning, True
    if any(sign in told for sign in ("socket disconnected", "timed out", "brokers are down")):
        return _STRANGE, False
    return said[-1] if said else error, False


@contextmanager
def _overheard(said: list[str]) -> Iterator[None]:
    """Take down what the client's log says, and keep it from everybody else."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    log = logging.getLogger("kafka")
    handler = Handler(logging.WARNING)
    before = log.propagate, log.level, list(log.handlers)
    log.propagate, log.handlers = False, [handler]
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.propagate, log.handlers = before[0], before[2]
        log.setLevel(before[1])
