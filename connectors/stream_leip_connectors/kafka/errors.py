"""Every error of the Kafka connector.

StreamLeipError
└── BrokerError     a broker that cannot be started or reached
"""

from stream_leip.errors import StreamLeipError


class BrokerError(StreamLeipError):
    """A broker cannot be started or reached; the message says why and the remedy."""
