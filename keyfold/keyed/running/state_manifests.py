"""Read the manifests of a generation's state from Spark's checkpoint: one for each state partition, with its parts."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from keyfold.keyed.generation.checkpoint import check_is_readable
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.state_source import read_source
from keyfold.keyed.running.processor import STATE_VARIABLE


def state_manifests(spark: SparkSession, generation: Generation, batch: int) -> DataFrame:
    """Read the manifests after a batch: columns `partition` (its label) and `manifest`.

    Raises:
        KeyfoldError: the checkpoint was moved in an object store after the last run.
    """
    # A local runner stores state in its own format.
    if (local := getattr(spark, "state_manifests", None)) is not None:
        return local(generation, batch)
    check_is_readable(generation.checkpoint)
    state = read_source(spark, generation.checkpoint, "statestore", batchId=batch, stateVarName=STATE_VARIABLE)
    return state.select(F.col("key.partition").alias("partition"), F.col("value.manifest").alias("manifest"))
