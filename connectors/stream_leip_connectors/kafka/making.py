"""Clients of kafka-python, of which nothing stays behind when they cannot be made."""

from typing import Any


def make(kind: Any, **settings: Any) -> Any:
    """A consumer, producer or admin client.

    Parameters
    ----------
    kind
        Which of kafka-python's classes.
    settings
        What it takes.
    """
    inner = kind.DEFAULT_CONFIG["kafka_client"]
    made: list[Any] = []

    def remember(**config: Any) -> Any:
        made.append(inner(**config))
        return made[0]

    try:
        return kind(**settings, kafka_client=remember)
    except BaseException:
        # A constructor that fails leaves a thread running that goes on trying, with its sockets.
        for client in made:
            client.close()
        raise
