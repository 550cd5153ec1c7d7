"""Saying that brokers are away: once, then every minute, and when they are back."""

import logging
import time
from collections.abc import Callable

log = logging.getLogger("stream_leip.kafka")

_AGAIN = 60.0
_SHORTEST, _LONGEST = 0.1, 5.0


class Outage:
    """Tells people of failures that waiting may mend.

    Parameters
    ----------
    clock
        Seconds, ascending.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._said = 0.0
        self._failures = 0

    @property
    def on(self) -> bool:
        """Whether the last call failed."""
        return self._since is not None

    def say(self, why: str) -> None:
        """A call failed."""
        now = self._clock()
        self._failures += 1
        if self._since is None:
            self._since = now
            self._said = now
            log.warning("Kafka is away, or not ready: %s. Waiting; nothing is lost", why)
        elif now - self._said >= _AGAIN:
            self._said = now
            log.warning("still waiting for Kafka, for %.0f s now: %s", now - self._since, why)

    def pause(self) -> float:
        """How long to wait before the next try: longer with each failure."""
        return min(_SHORTEST * 2.0 ** min(self._failures - 1, 10), _LONGEST)

    def over(self) -> None:
        """A call worked."""
        if self._since is not None:
            log.warning("Kafka is back after %.1f s", self._clock() - self._since)
        self._since = None
        self._failures = 0
