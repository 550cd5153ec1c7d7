"""Prior updates from a DataFrame of predictions."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_leip import InputError, SourceProfile
from stream_leip.checks import check_above_zero, check_whole
from stream_leip.estimators import Estimator
from stream_leip.monitor import DEFAULT_WINDOW
from stream_leip.times import span_seconds
from stream_leip.windows import Window
from stream_leip_connectors.spark.bucket import Plan, check_window
from stream_leip_connectors.spark.columns import Which, key_of, scores_of, time_of
from stream_leip_connectors.spark.merging import VALUE, merger
from stream_leip_connectors.spark.processor import BucketProcessor
from stream_leip_connectors.spark.profiles import broadcast
from stream_leip_connectors.spark.reading import Format, check_format
from stream_leip_connectors.spark.schema import from_wire
from stream_leip_connectors.spark.settings import check_session
from stream_leip_connectors.spark.slicing import SLICE, slicer

_BUCKETS = 64


def prior_updates(
    df: DataFrame,
    profile: SourceProfile,
    window: Window = DEFAULT_WINDOW,
    estimator: str | Estimator = "auto",
    *,
    key: Which | None = None,
    scores: Which = "scores",
    time: Which = "time",
    watermark: float | timedelta | None = None,
    format: Format = "json",
    buckets: int = _BUCKETS,
    idle: float | None = None,
    **options: Any,
) -> DataFrame:
    """Updates of the class mix from predictions, with the columns of the wire format.

    Events wait until the watermark has passed them, and go on by time; events of the same time by
    what is in them. So updates are the same whatever the partitions, the micro-batches and the
    order of arrival, and equal those of a `KeyedMonitor` that takes all events in this order.

    Parameters
    ----------
    df
        A stream or a batch. Of a batch, all windows end that have events.
    profile
        The source; it goes to the workers by broadcast.
    window, estimator
        As for `Monitor`. Where all events are one stream, windows are by time, or adaptive.
    key
        The column of keys, text, bytes or whole numbers; each is a stream of its own. None: all
        events are one stream.
    scores
        The column of scores: an array in the order of the profile's classes, a struct or a map by
        class name, or an event as text or bytes (the `value` of a Kafka record).
    time
        The column of event times: a timestamp, or epoch seconds.
    watermark
        How many seconds the watermark is behind the latest event of all; the window's lateness
        unless given. Events are late once a micro-batch has ended their pane; `late` counts them.
    format
        What bytes hold: "json", or a row of "float32".
    buckets
        Keys are spread over so many groups of state, which bound the number of tasks that end
        windows at a time. It cannot change for the lifetime of a checkpoint.
    idle
        Seconds of event time after which the state of a key without events is removed; None for
        never.
    options
        `level`, `alarm`, `check`, `max_rows` and `top_k` of `KeyedMonitor`.

    Notes
    -----
    Bad events are left out and never fail a query: `bad_rows` gives them with reasons, and `bad`
    counts those that have a key and a time.
    """
    check_format(format)
    check_window(window, keyed=key is not None)
    check_whole("buckets", buckets)
    if idle is not None:
        check_above_zero("idle", idle)
    plan = Plan(_in_order(window), estimator, options, key is not None, idle)
    plan.monitors(profile)  # what is wrong with a setting is said here, not in a worker
    behind = _behind(window, watermark)
    known = broadcast(df, profile)
    columns = [
        scores_of(df, scores, profile).alias("scores"),
        time_of(df, time).alias("time"),
        *([] if key is None else [key_of(df, key).alias("key")]),
    ]
    events = df.select(*columns)
    if df.isStreaming:
        check_session(df)
        events = events.withWatermark("time", f"{round(behind * 1e3)} milliseconds")
    events = events.withColumn("micros", F.unix_micros("time")).drop("time")
    slices = events.mapInArrow(slicer(known, format, buckets, keyed=key is not None), SLICE)
    if not df.isStreaming:
        together = slices.repartition("bucket").sortWithinPartitions("bucket", "start")
        return from_wire(together.mapInArrow(merger(known, plan), VALUE))
    return from_wire(
        slices.groupBy("bucket").transformWithStateInPandas(
            BucketProcessor(known, plan), VALUE, "Append", "EventTime"
        )
    )


def _in_order(window: Window) -> Window:
    """The same window, for events that come in the order of their times."""
    given: Any = window
    return replace(given, lateness=0.0) if getattr(window, "lateness", None) else window


def _behind(window: Window, watermark: float | timedelta | None) -> float:
    """Seconds that the watermark is behind the latest event."""
    own = span_seconds("lateness", getattr(window, "lateness", 0.0), zero=True)
    if watermark is None:
        return own
    asked = span_seconds("watermark", watermark, zero=True)
    if own and own != asked:
        raise InputError(
            f"watermark: {asked:g} s, but the window's lateness is {own:g} s; give one of them"
        )
    return asked
