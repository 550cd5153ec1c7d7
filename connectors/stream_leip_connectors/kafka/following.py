"""Following a topic from its beginning, in the background, for as long as one likes."""

import logging
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.corruption import find_corrupt, is_corrupt
from stream_leip_connectors.kafka.errors import BrokerError
from stream_leip_connectors.kafka.records import Record

log = logging.getLogger(__name__)

_POLL_MS = 200
_PAUSES = (0.2, 10.0)
# Seconds after which it is asked whether the topic has more partitions now.
_PARTITIONS_EVERY = 10.0


class Follower:
    """Hands every committed record of a topic to a function, in a thread of its own.

    A broker that goes away is waited for; batches that cannot be read are passed over, with a
    warning in the log.

    Parameters
    ----------
    bootstrap
        host:port of a broker, or several with commas between.
    topic
        Need not exist yet.
    take
        Called with each record, in the order of its partition.
    client
        More settings of kafka-python's consumer, as `security_protocol`.

    Attributes
    ----------
    error
        Why nothing can be read now; None while all is well.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        take: Callable[[Record], None],
        client: Mapping[str, Any] | None = None,
    ) -> None:
        self._kafka = extras.kafka()
        self._bootstrap = bootstrap
        self._topic = topic
        self._take = take
        self._client = dict(client or {})
        self._positions: dict[tuple[str, int], int] = {}
        self._caught_up = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.error: str | None = None

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
                f"{self._topic} at {self._bootstrap} could not be read to its end within "
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
                self._pass_over(error)
                self._stop.wait(pause)

    def _follow(self) -> None:
        consumer = self._consumer()
        try:
            ends: dict[Any, int] = {}
            asked = -_PARTITIONS_EVERY
            while not self._stop.is_set():
                if monotonic() - asked > _PARTITIONS_EVERY or not ends:
                    self._assign(consumer, ends)
                    asked = monotonic()
                for where, records in consumer.poll(_POLL_MS).items() if ends else ():
                    for record in records:
                        self._take(record)
                    self._positions[where] = records[-1].offset + 1
                self.error = None
                if not self._caught_up.is_set() and all(
                    consumer.position(where) >= end for where, end in ends.items()
                ):
                    self._caught_up.set()
                if not ends:
                    self._stop.wait(1.0)
        finally:
            consumer.close()

    def _assign(self, consumer: Any, ends: dict[Any, int]) -> None:
        """Read the partitions that there are, each from where it was; note where new ones end."""
        numbers = consumer.partitions_for_topic(self._topic) or ()
        there = [self._kafka.TopicPartition(self._topic, number) for number in sorted(numbers)]
        new = [where for where in there if where not in ends]
        if not new:
            return
        for where in ends:
            self._positions[where] = consumer.position(where)
        consumer.assign(there)
        for where in there:
            if where in self._positions:
                consumer.seek(where, self._positions[where])
            self._positions[where] = consumer.position(where)
        ends |= consumer.end_offsets(new)

    def _pass_over(self, error: Exception) -> None:
        try:
            if not is_corrupt(error):
                return
            for batch in find_corrupt(self._consumer, self._positions):
                log.warning("passed over what cannot be read: %s", batch)
                self._positions[batch.topic, batch.partition] = batch.last + 1
        except Exception as later:
            self.error = _said(later)

    def _consumer(self) -> Any:
        ours = {
            "bootstrap_servers": self._bootstrap.split(","),
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "max_poll_records": 10_000,
            "bootstrap_timeout_ms": 5000,  # close() waits for it
        }
        return self._kafka.KafkaConsumer(**ours | self._client)


def _said(error: Exception) -> str:
    """An error in words: kept itself, it would keep the consumer that it left."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
