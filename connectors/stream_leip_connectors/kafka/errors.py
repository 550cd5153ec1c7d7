"""Every error of the Kafka connector.

StreamLeipError
├── BrokerError         a broker that cannot be started or reached
│   └── NobodyThere     nobody listens at its address, or the name is unknown: it may come
├── TopicsError         topics that are missing, or not what the connector needs
├── StateError          a state that does not fit the input, the profile or the settings
│   └── RetentionLoss   events that the broker let go of before they were read
└── FencedError         another process runs as this instance
"""

from stream_leip.errors import StreamLeipError


class BrokerError(StreamLeipError):
    """A broker cannot be started or reached; the message says why and the remedy."""


class NobodyThere(BrokerError):
    """Nobody listens where the broker should be, or its name is unknown: it may not be up yet."""


class TopicsError(StreamLeipError):
    """A topic is missing, or not what the connector needs; the message names the remedy."""


class StateError(StreamLeipError):
    """The state in the changelog cannot be used; the message says why and the remedy."""


class RetentionLoss(StateError):
    """Events were deleted by the broker's retention before they were read."""


class FencedError(StreamLeipError):
    """Another process has taken this one's place."""
