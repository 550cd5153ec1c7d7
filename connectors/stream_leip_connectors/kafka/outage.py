"""Saying that brokers are away: once, then every minute, and when they are back."""

import logging
import time
from collections.abc import Callable

from stream_leip_connectors.kafka.errors import NobodyThere

log = logging.getLogger("stream_leip.kafka")

_AGAIN = 60.0
_SHORTEST, _LONGEST = 0.1, 5.0
_NOT_LONG = 300.0


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
            ended = why if why.endswith(("?", ".")) else f"{why}."
            log.warning("Kafka is away, or not ready: %s Waiting; nothing is lost", ended)
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


class Displacement:
    """Notes that the group takes a static member for another of its name.

    Brokers remember such a member's id from when its group last settled. One that restarts after
    the member joined anew, and before that, takes the new id for somebody else's, of whom there is
    none. So the member joins once more. That displaces whoever there is after all, who does the
    same: the second time tells, or a commit, which works only for who has the producer's name.

    Parameters
    ----------
    instance
        Its name.
    clock
        Seconds, ascending.
    """

    def __init__(self, instance: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._instance = instance
        self._clock = clock
        self._last: float | None = None

    def again(self) -> bool:
        """It happened; whether it did before, not long ago, and no commit worked since."""
        now, before = self._clock(), self._last
        self._last = now
        if before is not None and now - before < _NOT_LONG:
            return True
        log.warning("the group has a member named %r already; joining anew", self._instance)
        return False

    def over(self) -> None:
        """A commit worked."""
        self._last = None


def wait_for(
    reach: Callable[[], None],
    limit: float,
    asked: Callable[[], bool],
    outage: Outage | None = None,
) -> bool:
    """Try until a broker is there; False if asked to stop, NobodyThere beyond so many seconds."""
    outage = Outage() if outage is None else outage
    until = time.monotonic() + limit
    while not asked():
        try:
            reach()
        except NobodyThere as error:
            if time.monotonic() >= until:
                raise
            outage.say(str(error))
        else:
            outage.over()
            return True
        again = min(time.monotonic() + outage.pause(), until)
        while time.monotonic() < again and not asked():
            time.sleep(0.05)
    return False
