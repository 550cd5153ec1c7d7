"""Where the brokers are."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stream_leip_connectors.kafka.client import ClientFailed

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
        """What kafka-python's clients are made with; ClientFailed if nobody is there."""
        self.look()
        return {
            "bootstrap_servers": self.bootstrap.split(","),
            "retry_backoff_ms": _BACKOFF,
            "reconnect_backoff_ms": 50,
            "reconnect_backoff_max_ms": 1000,
            "bootstrap_timeout_ms": int(1000 * PATIENCE),
            **self.options,
        }

    def look(self) -> None:
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
