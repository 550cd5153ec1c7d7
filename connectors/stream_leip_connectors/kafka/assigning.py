"""Tasks of partitions that were assigned, as their last commit left them."""

from collections.abc import Callable
from dataclasses import dataclass

from stream_leip_connectors.kafka.application import Membership, Topics
from stream_leip_connectors.kafka.blueprint import Identity
from stream_leip_connectors.kafka.client import Client, GroupConsumer
from stream_leip_connectors.kafka.errors import TopicsError
from stream_leip_connectors.kafka.restoring import Situation, read_changelog
from stream_leip_connectors.kafka.working import Making, Working


@dataclass(frozen=True)
class Assigning:
    """Reads offsets and changelog of partitions, and has their tasks made.

    Parameters
    ----------
    client, topics, partitions
        By what, what, and how many partitions the input has.
    membership
        As which member.
    restorer
        Makes tasks.
    asked
        Whether to stop.
    """

    client: Client
    topics: Topics
    partitions: int
    membership: Membership
    restorer: Making
    asked: Callable[[], bool]

    def tasks(self, wanted: list[int], consumer: GroupConsumer) -> dict[int, Working]:
        """By partition; none if asked to stop. No transaction of the worker's may be open."""
        group, topic = self.membership.group, self.topics.input
        if max(wanted) >= self.partitions:
            raise TopicsError(
                f"input: topic {topic!r} was given more partitions than the {self.partitions} that "
                "it had at the start, so that keys move between them: begin anew with 'stream-leip "
                "kafka reset'"
            )
        committed = {each: consumer.committed(each) for each in wanted}
        reader = self.client.reader()
        try:
            bounds = reader.bounds(topic, wanted)
            contents = read_changelog(
                reader, self.topics.changelog, wanted, self.asked, self.membership.delivery
            )
        finally:
            reader.close()
        if contents is None:
            return {}
        return {
            each: self.restorer.task(
                Identity(group, topic, self.partitions, each),
                Situation(committed[each], *bounds[each]),
                contents[each],
            )
            for each in wanted
        }
