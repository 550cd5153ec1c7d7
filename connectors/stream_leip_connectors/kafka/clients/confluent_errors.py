"""What the errors of confluent-kafka mean."""

from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import ClientFailed, Meaning

_MEANINGS: dict[Meaning, tuple[str, ...]] = {
    "fenced": ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "_FENCED"),
    "displaced": ("FENCED_INSTANCE_ID",),
    "range": ("OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"),
    "left": (
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "REBALANCE_IN_PROGRESS",
        "_MAX_POLL_EXCEEDED",
        "_ASSIGNMENT_LOST",
    ),
    "corrupt": ("_BAD_MSG", "_BAD_COMPRESSION", "INVALID_MSG", "_NOT_IMPLEMENTED"),
    "refused": (
        "CLUSTER_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "_AUTHENTICATION",
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "UNSUPPORTED_VERSION",
        "_UNSUPPORTED_FEATURE",
        "_INVALID_ARG",
    ),
}


class translated:
    """Turns confluent-kafka's errors into what they mean here."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, extras.confluent().KafkaException):
            raise failed(error.args[0]) from error


def failed(error: Any) -> ClientFailed:
    """What a KafkaError means."""
    name = str(error.name())
    if name == "_FATAL":  # its text alone says what it was
        said = error.str()
        name = "FENCED_INSTANCE_ID" if "group.instance.id" in said else name
        name = "_FENCED" if "fenced by a newer instance" in said else name
    for meaning, names in _MEANINGS.items():
        if name in names:
            return ClientFailed(meaning, str(error.str()))
    return ClientFailed("retry", f"{name}: {error.str()}")
