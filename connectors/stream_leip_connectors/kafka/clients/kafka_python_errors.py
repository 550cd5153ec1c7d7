"""What the errors of kafka-python mean."""

from typing import Any

from stream_leip_connectors import extras
from stream_leip_connectors.kafka.client import ClientFailed, Meaning
from stream_leip_connectors.kafka.errors import BrokerError


class translated:
    """Turns kafka-python's errors into what they mean here.

    Parameters
    ----------
    kafka
        The client.
    reading
        Whether an error may come from bytes that were read.
    """

    def __init__(self, kafka: Any, *, reading: bool = False) -> None:
        self._errors = kafka.errors
        self._reading = reading

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ClientFailed | BrokerError):
            return
        if self._reading and isinstance(error, Exception) and is_corrupt(error):
            raise ClientFailed("corrupt", _said(error)) from error
        if isinstance(error, self._errors.KafkaError):
            late = isinstance(error, self._errors.KafkaTimeoutError) and error.args in ((), (None,))
            says = "no answer in time" if late else str(error)
            raise ClientFailed(_meaning(self._errors, error), says) from error


def is_corrupt(error: Exception) -> bool:
    """Whether a poll's error seems to come from the bytes it read."""
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


def _said(error: Exception) -> str:
    name, says = type(error).__name__, str(error)
    return says if name in says else f"{name}: {says}".rstrip(": ")


def _meaning(errors: Any, error: Any) -> Meaning:
    meanings: list[tuple[Meaning, Any]] = [
        ("fenced", errors.ProducerFencedError),
        ("fenced", errors.InvalidProducerEpochError),
        ("displaced", errors.FencedInstanceIdError),
        ("range", errors.OffsetOutOfRangeError),
        ("left", errors.CommitFailedError),
        ("left", errors.IllegalGenerationError),
        ("left", errors.UnknownMemberIdError),
        ("left", errors.RebalanceInProgressError),
        ("refused", errors.AuthorizationError),
        ("refused", errors.MessageSizeTooLargeError),
        ("refused", errors.RecordListTooLargeError),
        ("refused", errors.SaslAuthenticationFailedError),
        ("refused", errors.UnsupportedVersionError),
    ]
    # A producer that failed before says so in an error of its own, with the first one inside.
    inside = [each for each in error.args if isinstance(each, Exception)]
    for each in (error, *inside, error.__cause__):
        for meaning, kind in meanings:
            if isinstance(each, kind):
                return meaning
    return "retry"
