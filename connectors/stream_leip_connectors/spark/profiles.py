"""The profile on its way to the workers: by broadcast, as JSON, read once in each."""

from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame

from stream_leip import InputError, SourceProfile


def broadcast(df: DataFrame, profile: SourceProfile) -> Any:
    """The profile as a broadcast variable."""
    if not isinstance(profile, SourceProfile):
        raise InputError(
            f"profile: a {type(profile).__name__} is none; use fit_profile(…) or "
            "SourceProfile.load(path)"
        )
    return df.sparkSession.sparkContext.broadcast(profile.to_json())


@lru_cache(maxsize=8)
def profile_of(data: bytes) -> SourceProfile:
    """The profile that was broadcast."""
    return SourceProfile.from_json(data)
