"""A worker's own producer, under a name that nobody else has."""

import uuid

from stream_leip_connectors.kafka.application import Membership
from stream_leip_connectors.kafka.client import Client, Producer
from stream_leip_connectors.kafka.connection import PATIENCE


class OwnProducer:
    """Makes the producer when it is needed, and another after it was dropped.

    Parameters
    ----------
    client
        Who makes it.
    membership
        Whose it is.
    """

    def __init__(self, client: Client, membership: Membership) -> None:
        self._client = client
        self._member = membership
        # Two dynamic members are never of one name, so that none fences another.
        who = membership.instance or uuid.uuid4().hex
        self._name = f"{membership.group}-{who}"
        self._producer: Producer | None = None

    def own(self) -> Producer:
        """The producer; a new one ends what the one before it left open."""
        if self._producer is None:
            member = self._member
            self._producer = self._client.producer(self._name, member.transaction, member.delivery)
        return self._producer

    def drop(self, wait: float = 0.0) -> None:
        """Let go of it, and wait no longer than that for what it has open."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # Without a transaction, what it still writes must be there before anything is read.
            producer.close(wait if self._member.delivery == "exactly-once" else PATIENCE)
