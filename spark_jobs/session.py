"""Spark sessions for Keyfold: settings that are checked when they are loaded, and the session made of them."""

import os
import sys
import tempfile
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pyspark.sql import SparkSession

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"

SHIPPED_WITH_SPARK = tuple(
    f"{group}:*"
    for group in (
        "com.fasterxml.jackson.core",
        "com.fasterxml.jackson.datatype",
        "com.github.luben",
        "com.google.code.findbugs",
        "commons-logging",
        "commons-pool",
        "io.airlift",
        "javax.annotation",
        "org.apache.hadoop",
        "org.apache.logging.log4j",
        "org.apache.parquet",
        "org.roaringbitmap",
        "org.slf4j",
        "org.xerial.snappy",
    )
)
"""Left out of the packages' dependencies: Spark brings its own, and resolvers disagree on the others' versions."""

_FIXED = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
"""Settings that results depend on: a session with others would answer differently."""

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.databricks.delta.snapshotPartitions": "2",
}


class SparkSettings(BaseModel):
    """Where Spark runs and with what; unknown fields and misspelt masters are refused at load."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    master: str = Field("local[*]", description="Spark master URL: local[N], spark://host:port, yarn, k8s://…")
    app_name: str = Field("keyfold", min_length=1)
    packages: tuple[str, ...] = Field((), description="Maven coordinates, group:artifact:version, besides Delta's")
    conf: dict[str, str] = Field(default_factory=dict, description="Spark settings, by their own names")

    @model_validator(mode="after")
    def _fixed_settings_stay(self) -> Self:
        for name, value in _FIXED.items():
            if self.conf.get(name, value) != value:
                raise ValueError(f"{name} must stay {value!r}: Keyfold's results depend on it")
        return self


def build_session(settings: SparkSettings | None = None) -> SparkSession:
    """Start the Spark session that the settings describe, or return the running one."""
    settings = settings or SparkSettings()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    conf = _DEFAULTS | settings.conf | _FIXED
    conf["spark.jars.packages"] = ",".join((DELTA_PACKAGE, *settings.packages))
    conf["spark.jars.excludes"] = ",".join(SHIPPED_WITH_SPARK)
    if settings.master.startswith("local"):
        conf.setdefault("spark.driver.bindAddress", "127.0.0.1")
        conf.setdefault("spark.driver.host", "127.0.0.1")
        conf.setdefault("spark.sql.warehouse.dir", os.path.join(tempfile.gettempdir(), "keyfold-warehouse"))
    builder = SparkSession.builder.master(settings.master).appName(settings.app_name)
    for name, value in conf.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
