"""Posteriors under the mix that updates tell of."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from stream_leip import InputError, SourceProfile, Update
from stream_leip.adapt import adapt as under
from stream_leip_connectors.spark.columns import Which, key_of, scores_of
from stream_leip_connectors.spark.profiles import broadcast
from stream_leip_connectors.spark.reading import Format, Reader, check_format

Prior: TypeAlias = DataFrame | Update | Mapping[str, float] | Sequence[float]

_OUT = "posterior array<float>, reason string"


def adapt(
    df: DataFrame,
    mix: Prior,
    profile: SourceProfile,
    *,
    key: Which | None = None,
    scores: Which = "scores",
    format: Format = "json",
) -> DataFrame:
    """Rows with their posteriors under the current mix.

    Parameters
    ----------
    df
        Predictions, a stream or a batch.
    mix
        A DataFrame of updates, which is no stream: the newest of each key counts, and keys without
        any have the source's mix. Or an update, or a prior, as a list or by class name. On a
        stream, read the updates anew in every micro-batch, with `foreachBatch`.
    profile
        The source.
    key
        The column of keys, where updates are by key.
    scores, format
        As for `prior_updates`.

    Returns
    -------
    DataFrame
        The columns of `df`, with `posterior`, and `reason` where scores are bad and there is none.
    """
    check_format(format)
    known = broadcast(df, profile)

    def posteriors(batches: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.DataFrame]:
        found = known()
        reader = Reader(found, format)
        for given, priors in batches:
            rows, reasons = reader.rows(pa.Array.from_pandas(given))
            yield _adapted(rows, priors, reasons, found)

    udf = F.pandas_udf(posteriors, _OUT)
    if isinstance(mix, DataFrame):
        joined = _with_newest(df, mix, key)
    else:
        prior = F.array(*[F.lit(float(share)) for share in _static(mix, profile)])
        joined = df.withColumn("_prior", prior)
    held = joined.withColumn("_adapted", udf(scores_of(joined, scores, profile), F.col("_prior")))
    return held.select(*df.columns, "_adapted.posterior", "_adapted.reason")


def _adapted(
    rows: Any, priors: Any, reasons: dict[int, str], profile: SourceProfile
) -> pd.DataFrame:
    source = profile.soft_prior
    mixes = np.stack([source if prior is None else np.asarray(prior, float) for prior in priors])
    posteriors: list[Any] = list(under(rows, mixes, source))
    why: list[str | None] = [None] * len(rows)
    for place, reason in reasons.items():
        posteriors[place], why[place] = None, reason
    return pd.DataFrame(
        {
            "posterior": pd.Series(posteriors, dtype=object),
            "reason": pd.Series(why, dtype=object),
        }
    )


def _with_newest(df: DataFrame, updates: DataFrame, key: Which | None) -> DataFrame:
    """Each row with the prior that adapts it; null where there is none yet."""
    if updates.isStreaming:
        raise InputError(
            "mix: a stream of updates cannot be joined as it grows; read its sink in foreachBatch, "
            "as in docs/spark.md"
        )
    known = updates.where(F.col("adapting_prior").isNotNull())
    # By time first: a key that was forgotten, being idle, begins its sequence anew.
    newest = Window.partitionBy("key").orderBy(F.desc("end"), F.desc("sequence"))
    latest = (
        known.withColumn("_place", F.row_number().over(newest))
        .where("_place = 1")
        .select(F.col("key").alias("_key"), F.col("adapting_prior").alias("_prior"))
    )
    if key is None:
        whole = latest.where(F.col("_key").isNull()).select("_prior")
        return df.join(F.broadcast(whole), F.lit(True), "left")
    mine = df.withColumn("_own", key_of(df, key).cast("string"))
    return mine.join(F.broadcast(latest), F.col("_own") == F.col("_key"), "left")


def _static(mix: Any, profile: SourceProfile) -> list[float]:
    """A prior as a list in the order of the classes."""
    if isinstance(mix, Update):
        found = profile.soft_prior if mix.adapting_prior is None else mix.adapting_prior
        return [float(share) for share in found]
    if isinstance(mix, Mapping):
        odd = sorted(set(profile.classes) ^ set(mix))
        if odd:
            raise InputError(f"mix: class {odd[0]!r} is unknown or missing; give all classes")
        mix = [mix[name] for name in profile.classes]
    shares = np.asarray(mix, np.float64)
    if shares.shape != (len(profile.classes),) or not (shares >= 0).all():
        raise InputError(f"mix: {mix!r}; give a share for each of {len(profile.classes)} classes")
    if abs(shares.sum() - 1.0) > 1e-6:
        raise InputError(f"mix: {mix!r} has the sum {shares.sum():g}; shares have the sum 1")
    return [float(share) for share in shares]
