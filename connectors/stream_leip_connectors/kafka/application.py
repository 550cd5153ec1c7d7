"""The application that a worker is part of: its topics, and its group."""

from dataclasses import dataclass

from stream_leip_connectors.kafka.client import Assignment, Delivery, Member


@dataclass(frozen=True)
class Topics:
    """Names: where events come from, where updates, dead letters (None: nowhere) and state go."""

    input: str
    updates: str
    letters: str | None
    changelog: str


@dataclass(frozen=True)
class Membership:
    """How a worker is a member of its group.

    Parameters
    ----------
    group
        The consumer group: the application's name.
    instance
        A name of its own that stays over restarts; None for none.
    assignment
        How partitions move when members come and go.
    session
        Seconds after which a silent member is given up.
    commit
        Seconds from one transaction to the next.
    transaction
        Seconds after which the brokers abort a transaction that a dead worker left open.
    delivery
        Whether there are transactions.
    """

    group: str
    instance: str | None = None
    assignment: Assignment = "cooperative"
    session: float = 45.0
    commit: float = 1.0
    transaction: float = 10.0
    delivery: Delivery = "exactly-once"

    def member(self) -> Member:
        """What the client has to know of it."""
        return Member(self.group, self.instance, self.assignment, self.session)
