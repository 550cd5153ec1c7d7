"""Saying that events could not be used: the first of a partition at once, then every minute."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from stream_leip_connectors.kafka.dead_letters import PREFIX
from stream_leip_connectors.kafka.records import Message

log = logging.getLogger("stream_leip.kafka")

_AGAIN = 60.0


class Burials:
    """Tells people of dead letters, without a line for each.

    Parameters
    ----------
    clock
        Seconds, ascending.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[int, float] = {}
        self._unsaid: dict[int, int] = {}

    def tell(self, letters: Mapping[int, Sequence[Message]]) -> None:
        """Dead letters of partitions were written."""
        now = self._clock()
        for partition, mine in letters.items():
            number = self._unsaid.pop(partition, 0) + len(mine)
            if now - self._said.get(partition, -_AGAIN) < _AGAIN:
                self._unsaid[partition] = number
                continue
            self._said[partition] = now
            held = {name: value.decode(errors="replace") for name, value in mine[0].headers}
            log.warning(
                "%d events became dead letters; one of them: %s",
                number,
                held.get(f"{PREFIX}reason"),
                extra={
                    "partition": partition,
                    "offset": int(held.get(f"{PREFIX}offset", -1)),
                    "key": None if mine[0].key is None else mine[0].key.decode(errors="replace"),
                },
            )
