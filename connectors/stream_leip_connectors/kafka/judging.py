"""Which failures end a worker, and what is said then."""

from stream_leip.errors import StreamLeipError
from stream_leip_connectors.kafka.application import Membership
from stream_leip_connectors.kafka.client import ClientFailed
from stream_leip_connectors.kafka.errors import BrokerError, FencedError, RetentionLoss


def final(
    error: ClientFailed, membership: Membership, topic: str, *, displaced: bool
) -> StreamLeipError | None:
    """What to raise, if no waiting helps; None if the worker can go on.

    Parameters
    ----------
    error
        What failed.
    membership
        Whose call it was.
    topic
        The input.
    displaced
        Whether another process surely is the member of this name.
    """
    instance, group = membership.instance, membership.group
    if displaced or (error.meaning == "fenced" and instance is not None):
        return FencedError(
            f"instance {instance!r} of group {group!r} runs somewhere else too ({error}); give "
            "each process an --instance of its own"
        )
    if error.meaning == "refused":
        return BrokerError(f"the broker refuses: {error}")
    if error.meaning == "range":
        return RetentionLoss(
            f"{topic}: events were deleted by the topic's retention before they were read "
            f"({error}). Start again with --on-retention-loss continue to go on without them"
        )
    return None
