"""The page's lines are run on the checkpoint of a stock Spark query, and the job goes on from its state."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

from keyfold.state.making.seeding import SeedSource, seed_job
from tests.keyfold.keyed.toy_jobs import totals
from tests.lake import Lake

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "seed-a-job.md"
CLICKS = [("ann", 1), ("bob", 3), ("ann", 14)]


class Total(StatefulProcessor):
    """Keeps the number of a user's clicks."""

    def init(self, handle):
        self._total = handle.getValueState("total", StructType([StructField("n", LongType())]))

    def handleInputRows(self, key, rows, timerValues):
        self._total.update((sum(row.n for row in rows),))
        yield Row(user=key[0])


@pytest.fixture
def checkpoint(spark, tmp_path):
    source, folder = tmp_path / "source", tmp_path / "sessions"
    source.mkdir()
    (source / "clicks.json").write_text("\n".join(json.dumps({"user": user, "n": n}) for user, n in CLICKS))
    own = spark.session.newSession()
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    own.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    by_user = own.readStream.schema("user string, n long").json(str(source)).groupBy("user")
    counted = by_user.transformWithState(Total(), StructType([StructField("user", StringType())]), "Append", "None")
    query = (
        counted.writeStream.format("noop").option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    )
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()
    return folder


@pytest.mark.one_machine
def test_a_job_is_seeded_with_the_state_of_a_spark_query(checkpoint, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(lines.splitlines()) <= 10
    # Java has a working directory of its own.
    lines = lines.replace("/checkpoints/sessions", str(checkpoint)).replace(
        'parquet("seed")', f'parquet("{tmp_path}/seed")'
    )
    exec(lines, {})  # noqa: S102 - our own page
    assert "stateVariables" in capsys.readouterr().out, "what the metadata says is shown"
    assert sorted(pl.read_parquet("seed/*.parquet").rows()) == [("ann", 15), ("bob", 3)]
    lake = Lake(tmp_path / "home")
    lake.click(("ann", 1))
    seed_job(lake.lakehouse, totals(), SeedSource("seed", read_from="latest"), yes=True, runners=lake.session)
    lake.click(("ann", 20), ("cat", 21))
    lake.run(totals())
    assert lake.rows("totals", "user", "clicks") == [("ann", 16), ("cat", 1)]
    assert "keyfold state seed JOB --from seed" in PAGE.read_text()
