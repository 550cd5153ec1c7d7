"""The profile on its way to the workers: by broadcast, as JSON, read once in each."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from stream_leip import InputError, SourceProfile

Known: TypeAlias = Callable[[], SourceProfile]


class Broadcasting:
    """Gives a profile, here and in the workers.

    Before a query with state starts, Spark unpickles its processor in a process that gets no
    broadcast variables, where loading one is an error: so that waits until the profile is asked
    for.

    Parameters
    ----------
    variable
        The broadcast variable of the profile's JSON.
    """

    def __init__(self, variable: Any) -> None:
        self._variable = variable

    def __call__(self) -> SourceProfile:
        """The profile."""
        return _read(self._variable.value)

    def __reduce__(self) -> tuple[Any, ...]:
        # The variable's own pickling is what tells Spark to send it along.
        load, given = self._variable.__reduce__()
        return partial, (_arrived, load, *given)


def broadcast(df: DataFrame, profile: SourceProfile) -> Known:
    """The profile, for functions that run in workers."""
    if not isinstance(profile, SourceProfile):
        raise InputError(
            f"profile: a {type(profile).__name__} is none; use fit_profile(…) or "
            "SourceProfile.load(path)"
        )
    return Broadcasting(df.sparkSession.sparkContext.broadcast(profile.to_json()))


def _arrived(load: Callable[..., Any], *given: Any) -> SourceProfile:
    return _read(load(*given).value)


@lru_cache(maxsize=8)
def _read(data: bytes) -> SourceProfile:
    return SourceProfile.from_json(data)
