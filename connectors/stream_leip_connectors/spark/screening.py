"""Bad rows: what no update can be made of, with the reason."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from stream_leip import SourceProfile
from stream_leip_connectors.spark.columns import Which, key_of, scores_of, time_of
from stream_leip_connectors.spark.profiles import broadcast
from stream_leip_connectors.spark.reading import Format, Reader, check_format


def bad_rows(
    df: DataFrame,
    profile: SourceProfile,
    *,
    key: Which | None = None,
    scores: Which = "scores",
    time: Which = "time",
    format: Format = "json",
) -> DataFrame:
    """The rows that `prior_updates` leaves out, as they came, with a column `reason`.

    Parameters
    ----------
    df, profile, key, scores, time, format
        As for `prior_updates`.
    """
    check_format(format)
    known = broadcast(df, profile)
    columns = [scores_of(df, scores, profile), F.unix_micros(time_of(df, time))]
    keyed = key is not None
    if key is not None:
        columns.append(key_of(df, key))

    def reasons(batches: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.Series]:
        reader = Reader(known(), format)
        for series in batches:
            held, micros, *keys = (pa.Array.from_pandas(each) for each in series)
            read = reader.read(held, micros, keys[0] if keyed else None)
            found = np.full(len(held), None, object)
            found[list(read.reasons)] = list(read.reasons.values())
            yield pd.Series(found, dtype=object)

    judge = F.pandas_udf(reasons, "string")
    return df.withColumn("reason", judge(*columns)).where(F.col("reason").isNotNull())
