"""Where the brokers are, and what a client's errors mean."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stream_leip_connectors.kafka.corruption import is_corrupt

Meaning = Literal["retry", "left", "fenced", "corrupt", "range", "refused"]
# Seconds that one call may wait for a broker: so long, a signal to stop may have to wait too.
PATIENCE = 4.0
# With the default of 100 ms most of a transaction is waiting.
_BACKOFF = 10


@dataclass(frozen=True)
class Connection:
    """Where the brokers are.

    Parameters
    ----------
    bootstrap
        host:port, or several with commas.
    options
        Of the client, for every connection: security, say.
    """

    bootstrap: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """What every client is made with; ClientFailed if there is nobody to connect to."""
        self._look()
        return {
            "bootstrap_servers": self.bootstrap.split(","),
            "retry_backoff_ms": _BACKOFF,
            "reconnect_backoff_ms": 50,
            "reconnect_backoff_max_ms": 1000,
            "bootstrap_timeout_ms": int(1000 * PATIENCE),
            **self.options,
        }

    def _look(self) -> None:
        """A client that finds nobody leaks what it has opened: look before it does."""
        why: OSError | None = None
        for place in self.bootstrap.split(","):
            host, _, port = place.strip().rpartition(":")
            try:
                socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
            except ValueError:
                raise ClientFailed("refused", f"bootstrap: {place!r} is not host:port") from None
            except OSError as error:
                why = error
            else:
                return
        raise ClientFailed("retry", f"{self.bootstrap} does not answer ({why})") from why


class ClientFailed(Exception):
    """A call failed, and what that means.

    "retry": it may work later, or with a new client. "left": the group went on without this member.
    "fenced": another process has this one's name. "corrupt": records that no client can read.
    "range": the broker has let go of what was to be read. "refused": it will never work.
    """

    def __init__(self, meaning: Meaning, why: str) -> None:
        super().__init__(why)
        self.meaning = meaning


class translated:
    """Turns a client's errors into what they mean here.

    Parameters
    ----------
    kafka
        The client.
    reading
        Whether an error may come from bytes that were read.
    """

    def __init__(self, kafka: Any, *, reading: bool = False) -> None:
        self._errors = kafka.errors
        self._reading = reading

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._reading and isinstance(error, Exception) and is_corrupt(error):
            raise ClientFailed("corrupt", str(error)) from error
        if isinstance(error, self._errors.KafkaError):
            raise ClientFailed(_meaning(self._errors, error), str(error)) from error


def _meaning(errors: Any, error: Any) -> Meaning:
    meanings: list[tuple[Meaning, Any]] = [
        ("fenced", errors.ProducerFencedError),
        ("fenced", errors.InvalidProducerEpochError),
        ("fenced", errors.FencedInstanceIdError),
        ("range", errors.OffsetOutOfRangeError),
        ("left", errors.CommitFailedError),
        ("left", errors.IllegalGenerationError),
        ("left", errors.UnknownMemberIdError),
        ("left", errors.RebalanceInProgressError),
        ("refused", errors.AuthorizationError),
        ("refused", errors.MessageSizeTooLargeError),
        ("refused", errors.RecordListTooLargeError),
        ("refused", errors.SaslAuthenticationFailedError),
        ("refused", errors.UnsupportedVersionError),
    ]
    # A producer that failed before says so in an error of its own, with the first one inside.
    inside = [each for each in error.args if isinstance(each, Exception)]
    for each in (error, *inside, error.__cause__):
        for meaning, kind in meanings:
            if isinstance(each, kind):
                return meaning
    return "retry"
