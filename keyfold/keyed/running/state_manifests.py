"""What Spark keeps of a generation's state: a manifest a partition, which names the parts that hold its rows."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyfold.keyed.generation.checkpoint import check_is_readable
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.state_source import read_source
from keyfold.keyed.running.processor import STATE_VARIABLE


def state_manifests(spark: SparkSession, generation: Generation, batch: int) -> DataFrame:
    """The manifests of a generation's state after a batch: `partition` (its label), `manifest`.

    Raises:
        KeyfoldError: the checkpoint was moved in a store since a run last wrote to it.
    """
    check_is_readable(generation.checkpoint)
    state = read_source(spark, generation.checkpoint, "statestore", batchId=batch, stateVarName=STATE_VARIABLE)
    return state.select(F.col("key.partition").alias("partition"), F.col("value.manifest").alias("manifest"))
