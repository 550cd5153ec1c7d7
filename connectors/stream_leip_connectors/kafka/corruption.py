"""Batches of a topic that no client can read: which they are, so that reading can go on after them.

A bad checksum, an unknown codec or bytes that do not unpack make kafka-python's poll() raise, and
the consumer is of no use from then on. Seeking into the batch does not help: the broker sends whole
batches. So each look is a consumer of its own, and a batch's end is found by doubling and halving.
"""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.errors import BrokerError

Partition = tuple[str, int]


class CorruptBatch(NamedTuple):
    """Records of a partition, from `first` to `last`, that cannot be read."""

    topic: str
    partition: int
    first: int
    last: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}], offsets {self.first} to {self.last}: {self.reason}"


def is_corrupt(error: Exception) -> bool:
    """Whether a poll's error seems to come from the bytes it read; `find_corrupt` makes sure."""
    errors = extras.kafka().errors
    if isinstance(error, errors.UnsupportedCodecError):
        if "not found" in str(error):
            raise BrokerError(
                f"{error}; install the codecs: pip install 'stream-leip[kafka]'"
            ) from error
        return True
    if isinstance(error, errors.KafkaError):
        return isinstance(error, errors.CorruptRecordError)
    # What a codec says of bytes that it cannot unpack is an error of its own kind, gzip's an
    # OSError; one that comes from the system has a number.
    return not (isinstance(error, OSError) and error.errno is not None)


def find_corrupt(
    make_consumer: Callable[[], Any],
    positions: Mapping[Partition, int],
    *,
    timeout: float = 30.0,
) -> list[CorruptBatch]:
    """The batches that cannot be read, of those at which partitions stand.

    Parameters
    ----------
    make_consumer
        A new consumer, in no group.
    positions
        The offset that is next in each partition.
    timeout
        Seconds that one look may take.
    """
    found: list[CorruptBatch] = []
    for (topic, partition), first in positions.items():
        look = _Look(make_consumer, topic, partition, timeout)
        reason = look.at(first)
        if reason is not None:
            found.append(CorruptBatch(topic, partition, first, look.last(first), reason))
    return found


class _Look:
    def __init__(
        self, make_consumer: Callable[[], Any], topic: str, partition: int, timeout: float
    ) -> None:
        self._make = make_consumer
        self._partition = extras.kafka().TopicPartition(topic, partition)
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
        consumer = self._make()
        partition = self._partition
        try:
            consumer.assign([partition])
            if offset >= consumer.end_offsets([partition])[partition]:
                return None
            consumer.seek(partition, offset)
            until = monotonic() + self._timeout
            # Markers of transactions move the position, and are no records.
            while not consumer.poll(500, max_records=1) and consumer.position(partition) == offset:
                if monotonic() > until:
                    raise BrokerError(
                        f"{partition.topic}[{partition.partition}]: nothing could be read at "
                        f"offset {offset} within {self._timeout:g} s; is the broker up?"
                    )
        except BrokerError:
            raise
        except Exception as error:
            if not is_corrupt(error):
                raise
            name, says = type(error).__name__, str(error)
            return says if name in says else f"{name}: {says}".rstrip(": ")
        finally:
            consumer.close()
        return None
