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
from stream_leip_connectors.kafka.errors import BrokerError

_PASSWORD = (
    "the broker does not know this username with this password; mend one of them, or the "
    "sasl_mechanism"
)
# Signs in the log, and what they mean.
_MEANINGS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("SaslAuthenticationFailed", "invalid credentials", "IllegalSaslState"), _PASSWORD),
    (
        ("UnsupportedSaslMechanism",),
        "the broker does not offer this sasl_mechanism; choose another",
    ),
    (
        ("CERTIFICATE_VERIFY_FAILED",),
        "the broker's certificate is not to be trusted; is ca_file the authority that signed it, "
        "and is the name in it the one you connect to?",
    ),
    (
        ("BAD_CERTIFICATE", "CERTIFICATE_REQUIRED", "CERTIFICATE_UNKNOWN", "UNKNOWN_CA"),
        "the broker does not accept our certificate, or wants one; set certificate_file and "
        "key_file to one that its authority signed",
    ),
    (
        ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF", "_SSL"),
        "the broker does not speak TLS at this port; choose another security_protocol, or its "
        "other port",
    ),
    (("Connection refused", "ECONNREFUSED"), "nobody listens there; is the broker up?"),
    (
        ("DNS", "gaierror", "Name or service", "nodename"),
        "the name is unknown; is it spelt right?",
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
                client = kafka.KafkaAdminClient(
                    bootstrap_servers=bootstrap.split(","),
                    **{**(options or {}), "bootstrap_timeout_ms": int(1000 * min(left, _ONE_TRY))},
                )
                client.close()
            return
        except kafka.errors.KafkaError as error:
            why, final = _why(said, error, options or {})
            if final or left <= _ONE_TRY:
                raise BrokerError(f"{bootstrap} cannot be reached: {why}") from None
        except (ValueError, OSError) as error:  # a PEM file that is none, say
            raise BrokerError(f"{bootstrap} cannot be reached: {error}") from None


def _why(said: list[str], error: Exception, options: Mapping[str, Any]) -> tuple[str, bool]:
    """Why a try failed, and whether no other can do better."""
    told = "\n".join(said)
    # A broker may hang up before its answer to a wrong password is read; but it told its version.
    if "sasl_mechanism" in options and _HUNG_UP.search(told):
        return _PASSWORD, True
    for signs, meaning in _MEANINGS:
        if any(sign in told for sign in signs):
            return meaning, True
    if "socket disconnected" in told or "timed out" in told:
        return _STRANGE, False
    return said[-1] if said else str(error), False


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
