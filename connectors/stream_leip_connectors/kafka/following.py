"""Following a topic from its beginning, in the background, for as long as one likes."""

import logging
import threading
from collections.abc import Callable, Collection
from math import inf
from time import monotonic

from stream_leip_connectors.kafka.client import Client, ClientFailed, TopicReader
from stream_leip_connectors.kafka.corruption import find_corrupt
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.records import Record

log = logging.getLogger(__name__)

_POLL = 0.2
_PAUSES = (0.2, 10.0)
# Seconds after which it is asked whether the topic has more partitions now.
_PARTITIONS_EVERY = 10.0


class Follower:
    """Hands every committed record of a topic to a function, in a thread of its own.

    A broker that goes away is waited for; batches that cannot be read are passed over, with a
    warning in the log.

    Parameters
    ----------
    client
        Who reads.
    topic
        Need not exist yet.
    take
        Called with each record, in the order of its partition.
    count_every
        Seconds after which brokers are asked how much is not yet read; never if None.

    Attributes
    ----------
    error
        Why nothing can be read now; None while all is well.
    unread
        Offsets between what was read and the topic's end, with those of transactions that are
        open; None while nobody counts.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        take: Callable[[Record], None],
        *,
        count_every: float | None = None,
    ) -> None:
        self._client = client
        self._topic = topic
        self._take = take
        self._positions: dict[int, int] = {}
        self._caught_up = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._count_every = count_every
        self.error: str | None = None
        self.unread: int | None = None

    def start(self) -> None:
        """Begin, or go on after `close`."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(
                target=self._run, name=f"follow {self._topic}", daemon=True
            )
            self._thread.start()

    def wait(self, timeout: float) -> None:
        """Wait until all that was in the topic at the start has been taken."""
        if not self._caught_up.wait(timeout):
            why = f": {self.error}" if self.error else ""
            raise BrokerError(
                f"{self._topic} at {self._client.bootstrap} could not be read to its end within "
                f"{timeout:g} s{why}. Is the address right, and the broker up?"
            )

    def close(self) -> None:
        """End, once the poll that is under way is done."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(10.0)
            self._thread = None

    def _run(self) -> None:
        shortest, longest = _PAUSES
        pause = shortest
        while not self._stop.is_set():
            try:
                self._follow()
            except Exception as error:  # whatever it is, the next try may go well
                pause = shortest if self.error is None else min(2 * pause, longest)
                if self.error is None:
                    log.warning("%s cannot be read, trying again: %s", self._topic, _said(error))
                self.error = _said(error)
                self.unread = None
                self._pass_over(error)
                self._stop.wait(pause)

    def _follow(self) -> None:
        reader = self._client.reader()
        try:
            ends: dict[int, int] = {}
            asked = -_PARTITIONS_EVERY
            counted = -inf
            while not self._stop.is_set():
                if monotonic() - asked > _PARTITIONS_EVERY or not ends:
                    self._assign(reader, ends)
                    asked = monotonic()
                for partition, records in reader.poll(_POLL).items() if ends else ():
                    for record in records:
                        self._take(record)
                    self._positions[partition] = records.offsets[-1] + 1
                self.error = None
                if self._count_every is not None and monotonic() - counted > self._count_every:
                    self.unread = self._left(reader, ends)
                    counted = monotonic()
                if not self._caught_up.is_set() and all(
                    reader.position(partition) >= end for partition, end in ends.items()
                ):
                    self._caught_up.set()
                if not ends:
                    self._stop.wait(1.0)
        finally:
            reader.close()

    def _assign(self, reader: TopicReader, ends: dict[int, int]) -> None:
        """Read the partitions that there are, each from where it was; note where new ones end."""
        there = reader.partitions(self._topic)
        new = there - ends.keys()
        if not new:
            return
        for partition, (first, end) in reader.bounds(self._topic, sorted(new)).items():
            self._positions.setdefault(partition, first)
            ends[partition] = end
        reader.start(self._topic, {each: self._positions[each] for each in sorted(there)})

    def _left(self, reader: TopicReader, known: Collection[int]) -> int:
        bounds = reader.bounds(self._topic, sorted(known)) if known else {}
        return sum(max(0, end - reader.position(each)) for each, (_, end) in bounds.items())

    def _pass_over(self, error: Exception) -> None:
        try:
            if not (isinstance(error, ClientFailed) and error.meaning == "corrupt"):
                return
            for batch in find_corrupt(
                lambda: self._client.reader(committed=False), self._topic, self._positions
            ):
                log.warning("passed over what cannot be read: %s", batch)
                self._positions[batch.partition] = batch.last + 1
        except Exception as later:
            self.error = _said(later)


def _said(error: Exception) -> str:
    """An error in words: kept itself, it would keep the consumer that it left."""
    if isinstance(error, ClientFailed):
        return str(error)
    return f"{type(error).__name__}: {error}".rstrip(": ")
