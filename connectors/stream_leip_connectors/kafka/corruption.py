"""Batches of a topic that no client can read: which they are, so that reading can go on after them.

A bad checksum, an unknown codec or bytes that do not unpack make a poll fail, and kafka-python's
consumer is of no use from then on. Seeking into the batch does not help: the broker sends whole
batches. So each look is a reader of its own, and a batch's end is found by doubling and halving.
"""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple

from stream_leip_connectors.kafka.client import ClientFailed, TopicReader
from stream_leip_connectors.kafka.errors import BrokerError


class CorruptBatch(NamedTuple):
    """Records of a partition, from `first` to `last`, that cannot be read."""

    topic: str
    partition: int
    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}], offsets {self.first} to {self.last}: {self.reason}"


def find_corrupt(
    make_reader: Callable[[], TopicReader],
    topic: str,
    positions: Mapping[int, int],
    *,
    timeout: float = 30.0,
) -> list[CorruptBatch]:
    """The batches that cannot be read, of those at which partitions stand.

    Parameters
    ----------
    make_reader
        A new reader, of what is not committed too.
    topic
        What is read.
    positions
        The offset that is next in each partition.
    timeout
        Seconds that one look may take.
    """
    found: list[CorruptBatch] = []
    for partition, first in positions.items():
        look = _Look(make_reader, topic, partition, timeout)
        reason = look.at(first)
        if reason is not None:
            found.append(CorruptBatch(topic, partition, first, look.last(first), reason))
    return found


class _Look:
    def __init__(
        self, make_reader: Callable[[], TopicReader], topic: str, partition: int, timeout: float
    ) -> None:
        self._make = make_reader
        self._topic = topic
        self._partition = partition
        self._timeout = timeout

    def last(self, first: int) -> int:
        """The last offset of the unreadable batch, or row of them, that has `first` in it."""
        step = 1
        while self.at(first + step) is not None:
            step *= 2
        bad, good = first + step // 2, first + step
        while good - bad > 1:
            middle = (bad + good) // 2
            if self.at(middle) is None:
                good = middle
            else:
                bad = middle
        return bad

    def at(self, offset: int) -> str | None:
        """Why the batch with an offset cannot be read; None if it can, or there is none yet."""
        topic, partition = self._topic, self._partition
        reader = self._make()
        try:
            if offset >= reader.bounds(topic, [partition])[partition][1]:
                return None
            reader.start(topic, {partition: offset})
            until = monotonic() + self._timeout
            # Markers of transactions move the position, and are no records.
            while not reader.poll(0.5, 1) and reader.position(partition) == offset:
                if monotonic() > until:
                    raise BrokerError(
                        f"{topic}[{partition}]: nothing could be read at offset {offset} within "
                        f"{self._timeout:g} s; is the broker up?"
                    )
        except ClientFailed as error:
            if error.meaning != "corrupt":
                raise
            return str(error)
        finally:
            reader.close()
        return None
