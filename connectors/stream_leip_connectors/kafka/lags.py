"""How far a consumer is behind."""

from collections.abc import Mapping

from stream_leip_connectors.kafka.client import GroupConsumer
from stream_leip_connectors.kafka.working import Working


def at_end(consumer: GroupConsumer, partition: int) -> bool:
    """Whether it has read all there is, markers of transactions included."""
    end = consumer.high_watermark(partition)
    if end is None:
        return False
    position = consumer.position(partition)
    return position is not None and position >= end


def lags_of(consumer: GroupConsumer, tasks: Mapping[int, Working], *, busy: bool) -> dict[int, int]:
    """How many offsets each partition is behind, where that is known.

    `busy`: some of what was read is not worked on yet.
    """
    found: dict[int, int] = {}
    for partition, task in list(tasks.items()):
        end = consumer.high_watermark(partition)
        if end is not None:
            # Markers of transactions take offsets, and no event comes of them.
            done = not busy and at_end(consumer, partition)
            found[partition] = 0 if done else max(end - task.offset, 0)
    return found
