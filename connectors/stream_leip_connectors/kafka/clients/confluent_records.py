"""confluent-kafka: what a consumer's batch brought."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import ClientFailed
from stream_leip_connectors.kafka.clients.confluent_errors import failed
from stream_leip_connectors.kafka.records import Records


class Sorted(NamedTuple):
    """A consumer's batch: records by partition, ends that were reached, and what went wrong."""

    records: dict[int, Records]
    ends: dict[int, int]
    failure: ClientFailed | None

    def move(self, positions: dict[int, int]) -> None:
        """Bring positions to where this goes."""
        for partition, records in self.records.items():
            positions[partition] = records.offsets[-1] + 1
        for partition, end in self.ends.items():
            positions[partition] = max(positions.get(partition, 0), end)


def by_partition(messages: list[Any]) -> Sorted:
    """Messages in order; of a partition, none after an error: it may have left some out."""
    if not messages:
        return Sorted({}, {}, None)
    confluent = extras.confluent()
    ends: dict[int, int] = {}
    failure: ClientFailed | None = None
    errors = list(map(confluent.Message.error, messages))
    if set(map(type, errors)) != {type(None)}:  # an error cannot be compared with None
        good: list[Any] = []
        bad: set[int] = set()
        for message, error in zip(messages, errors, strict=True):
            partition = message.partition()
            if error is None:
                if partition not in bad:
                    good.append(message)
            elif error.code() == confluent.KafkaError._PARTITION_EOF:
                ends[partition] = message.offset()
            else:
                bad.add(partition)
                failure = failure or failed(error)
        messages = good
    numbers = np.fromiter(map(confluent.Message.partition, messages), np.int64, len(messages))
    found: dict[int, list[Any]] = {}
    # They come in runs, of what each fetch brought.
    bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(messages)]
    for begin, end in pairwise(bounds):
        if begin < end:
            found.setdefault(int(numbers[begin]), []).extend(messages[begin:end])
    return Sorted({number: _columns(each) for number, each in found.items()}, ends, failure)


def _columns(messages: list[Any]) -> Records:
    kind = extras.confluent().Message
    headers = list(map(kind.headers, messages))
    return Records(
        messages[0].topic(),
        messages[0].partition(),
        list(map(kind.offset, messages)),
        [at if known else -1 for known, at in map(kind.timestamp, messages)],
        list(map(kind.key, messages)),
        list(map(kind.value, messages)),
        [tuple(each or ()) for each in headers] if any(headers) else None,
    )
