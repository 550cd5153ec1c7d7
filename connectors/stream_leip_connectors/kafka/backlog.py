"""Records that were polled and are not worked on yet."""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping

from stream_leip_connectors.kafka.records import Records

# Seconds that one piece of work should take, and its least records.
_PIECE = 0.25
_LEAST = 200


class Backlog:
    """Hands out pieces of work that do not take long, in the order of each partition.

    Parameters
    ----------
    clock
        Seconds, ascending.

    Examples
    --------
    >>> from stream_leip_connectors.kafka.backlog import Backlog
    >>> from stream_leip_connectors.kafka.records import Records
    >>> backlog = Backlog()
    >>> backlog.put({0: Records("predictions", 0, [7, 8], [0, 0], [b"a", b"b"], [b"{}", b"{}"])})
    >>> backlog.work(lambda partition, records: print(partition, records.offsets), seconds=1.0)
    0 [7, 8]
    >>> bool(backlog)
    False
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: deque[tuple[int, Records]] = deque()
        self._pace = 0.0  # seconds a record took, in the newest piece

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, found: Mapping[int, Records]) -> None:
        """Add what was polled."""
        self._waiting.extend(found.items())

    def drop(self, partitions: Collection[int]) -> None:
        """Forget what there is of partitions: somebody else reads it, or it is read again."""
        self._waiting = deque(each for each in self._waiting if each[0] not in partitions)

    def clear(self) -> None:
        """Forget all."""
        self._waiting.clear()

    def work(self, take: Callable[[int, Records], None], seconds: float) -> None:
        """Have pieces taken until all are, or so many seconds are over; one in any case."""
        began = now = self._clock()
        while self._waiting and (now - began < seconds or now == began):
            partition, records = self._next()
            take(partition, records)
            before, now = now, self._clock()
            self._pace = (now - before) / len(records)

    def _next(self) -> tuple[int, Records]:
        partition, records = self._waiting.popleft()
        most = len(records)
        if self._pace * most > 2.0 * _PIECE:
            most = min(most, max(_LEAST, int(_PIECE / self._pace)))
        if most < len(records):
            self._waiting.appendleft((partition, records.some(range(most, len(records)))))
            records = records.some(range(most))
        return partition, records
