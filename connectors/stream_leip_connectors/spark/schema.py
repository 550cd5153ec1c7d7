"""Updates as a DataFrame, with the columns of the wire format."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

_NUMBERS = T.ArrayType(T.DoubleType())

ALARM = T.StructType(
    [
        T.StructField("value", T.DoubleType()),
        T.StructField("threshold", T.DoubleType()),
        T.StructField("warning", T.BooleanType()),
        T.StructField("raised", T.BooleanType()),
        T.StructField("since", T.LongType()),
        T.StructField(
            "classes",
            T.ArrayType(
                T.StructType(
                    [
                        T.StructField("class", T.StringType()),
                        T.StructField("direction", T.StringType()),
                        T.StructField("deviations", T.DoubleType()),
                    ]
                )
            ),
        ),
        T.StructField("null", _NUMBERS),
        T.StructField("nulls", T.LongType()),
    ]
)

CHECK = T.StructType(
    [
        T.StructField("p", T.DoubleType()),
        T.StructField("flagged", T.BooleanType()),
        T.StructField("validation_share", T.DoubleType()),
        T.StructField("message", T.StringType()),
    ]
)

# In the order of Update.to_dict.
UPDATE = T.StructType(
    [
        T.StructField("schema", T.LongType()),
        T.StructField("sequence", T.LongType()),
        T.StructField("first", T.LongType()),
        T.StructField("last", T.LongType()),
        T.StructField("start", T.DoubleType()),
        T.StructField("end", T.DoubleType()),
        T.StructField("n", T.LongType()),
        T.StructField("classes", T.ArrayType(T.StringType())),
        T.StructField("estimator", T.StringType()),
        T.StructField("reason", T.StringType()),
        T.StructField("prior", _NUMBERS),
        T.StructField("weights", _NUMBERS),
        T.StructField("adapting_prior", _NUMBERS),
        T.StructField("leip", _NUMBERS),
        T.StructField("em", _NUMBERS),
        T.StructField("threshold", T.DoubleType()),
        T.StructField("confident", _NUMBERS),
        T.StructField("buffered", T.DoubleType()),
        T.StructField("bad", T.LongType()),
        T.StructField("late", T.LongType()),
        T.StructField("thinned", T.LongType()),
        T.StructField("key", T.StringType()),
        T.StructField("low", _NUMBERS),
        T.StructField("high", _NUMBERS),
        T.StructField("memory", T.DoubleType()),
        T.StructField("changed_at", T.LongType()),
        T.StructField("alarm", ALARM),
        T.StructField("check", CHECK),
    ]
)


def from_wire(df: DataFrame) -> DataFrame:
    """Updates from a column `value` of their JSON, such as a Kafka topic of them.

    A batch of these is what `adapt` takes.
    """
    update = F.from_json(F.col("value").cast("string"), UPDATE)
    return df.select(update.alias("update")).select("update.*")


def to_wire(updates: DataFrame) -> DataFrame:
    """Updates as `key` and `value`, their JSON, as a Kafka sink takes them.

    The key is that of the stream, so that a compacted topic holds the newest update of each.
    """
    every = F.struct(*[F.col(name) for name in UPDATE.names])
    value = F.to_json(every, {"ignoreNullFields": "false"})
    return updates.select(F.col("key"), value.alias("value"))
