"""Which columns of a DataFrame hold scores, time and key, each as what the workers read."""

from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from stream_leip import InputError, SourceProfile

Which: TypeAlias = str | Column

# Years 5 to 5138, as everywhere; what is beyond would move the watermark for ever.
_EARLIEST, _LATEST = -62_000_000_000, 100_000_000_000


def column_of(df: DataFrame, name: str, which: Which) -> Column:
    """A column by its name, or as it is."""
    if isinstance(which, Column):
        return which
    if which not in df.columns:
        raise InputError(
            f"{name}: there is no column {which!r}; found {', '.join(df.columns)}; "
            f"name another with {name}=…"
        )
    return F.col(f"`{which}`")


def _type(df: DataFrame, column: Column) -> Any:
    return df.select(column.alias("it")).schema["it"].dataType


def scores_of(df: DataFrame, which: Which, profile: SourceProfile) -> Column:
    """Scores as an array of doubles, or as bytes that hold an event."""
    column = column_of(df, "scores", which)
    kind = _type(df, column)
    if isinstance(kind, T.ArrayType) and isinstance(kind.elementType, T.NumericType):
        whole = isinstance(kind.elementType, T.FloatType | T.DoubleType)
        return column if whole else column.cast("array<double>")
    if isinstance(kind, T.StructType):
        missing = [name for name in profile.classes if name not in kind.names]
        if missing:
            raise InputError(
                f"scores: the struct has no field {missing[0]!r}; it needs one for each class"
            )
        each = [column.getField(name).cast("double") for name in profile.classes]
        return F.when(column.isNotNull(), F.array(*each))
    if isinstance(kind, T.MapType):
        # By way of JSON, where classes may be left out and unknown ones are refused.
        return F.to_json(F.struct(column.alias("scores"))).cast("binary")
    if isinstance(kind, T.StringType):
        return column.cast("binary")
    if isinstance(kind, T.BinaryType):
        return column
    raise InputError(
        f"scores: a column of type {kind.simpleString()}; use an array of numbers, a map or a "
        "struct by class name, or an event as text or bytes"
    )


def time_of(df: DataFrame, which: Which) -> Column:
    """Time as a timestamp; null where it is none that can be used."""
    column = column_of(df, "time", which)
    kind = _type(df, column)
    if isinstance(kind, T.NumericType):
        seconds = column.cast("double")
        sane = seconds.between(_EARLIEST, _LATEST)
        return F.timestamp_micros(F.when(sane, F.round(seconds * 1e6).cast("long")))
    if isinstance(kind, T.TimestampType):
        return F.when(F.unix_seconds(column).between(_EARLIEST, _LATEST), column)
    raise InputError(
        f"time: a column of type {kind.simpleString()}; use a timestamp (with a zone), or epoch "
        "seconds as a number"
    )


def key_of(df: DataFrame, which: Which) -> Column:
    """A key as bytes of text."""
    column = column_of(df, "key", which)
    kind = _type(df, column)
    if isinstance(kind, T.BinaryType):
        return column
    if isinstance(kind, T.StringType | T.IntegralType):
        return column.cast("string").cast("binary")
    raise InputError(
        f"key: a column of type {kind.simpleString()}; use text, bytes or a whole number"
    )
