"""Checkpoints of stock Spark queries, none of them Keyfold's: every kind of state that Spark keeps."""

import json
import re
import shutil
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import duckdb
import polars as pl
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType
from typer.testing import CliRunner

from keyfold.cli import ingest as ingest_command
from keyfold.cli import run as run_command
from keyfold.cli import state_reading, state_tools
from keyfold.cli.app import app
from keyfold.errors import KeyfoldError
from keyfold.runners import Runners
from keyfold.session.spark_checkpoint import read_checkpoint, view_of
from keyfold.state.reading.export import write_state

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "read-a-spark-checkpoint.md"
CLICKS = [("ann", 1, 1), ("bob", 3, 2), ("ann", 14, 3)]
NUMBER = StructType([StructField("n", LongType())])
OUT = StructType([StructField("user", StringType())])
IN_2030 = datetime(2030, 1, 1, tzinfo=UTC)


def at(minute):
    return datetime(2026, 1, 1, 0, minute, tzinfo=UTC)


class Kept(StatefulProcessor):
    """Keeps a value, a list and a map a key; and a timer, or a time to live."""

    def __init__(self, ttl):
        self._ttl = ttl

    def init(self, handle):
        self._handle = handle
        self._total = handle.getValueState("total", NUMBER, self._ttl)
        self._seen = handle.getListState("seen", NUMBER, self._ttl)
        self._by_name = handle.getMapState(
            "by_name", StructType([StructField("name", StringType())]), NUMBER, self._ttl
        )

    def handleInputRows(self, key, rows, timerValues):
        total = 0
        for row in rows:
            total += row.n
            self._seen.appendValue((row.n,))
            self._by_name.updateValue((f"n{row.n}",), (row.n,))
        self._total.update((total,))
        if self._ttl is None:
            self._handle.registerTimer(int(IN_2030.timestamp() * 1000))
        yield Row(user=key[0])


@pytest.fixture(scope="module")
def session(spark: Runners) -> SparkSession:
    if not str(spark.session.conf.get("spark.master")).startswith("local"):
        pytest.skip("a checkpoint is read on this machine")
    return spark.session


@pytest.fixture(scope="module")
def checkpoints(session: SparkSession, tmp_path_factory):
    """A folder a query, each run over the same few clicks."""
    folder = tmp_path_factory.mktemp("queries")
    source = folder / "source"
    source.mkdir()
    rows = [{"user": user, "at": at(minute).isoformat(), "n": n} for user, minute, n in CLICKS]
    (source / "clicks.json").write_text("\n".join(map(json.dumps, rows)))
    own = session.newSession()
    own.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    own.conf.set("spark.sql.streaming.stateStore.providerClass", provider)

    def stream():
        clicks = own.readStream.schema("user string, at timestamp, n long").json(str(source))
        return clicks.withWatermark("at", "5 minutes")

    def run(name, frame):
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder / name))
        query = writer.trigger(availableNow=True).start()
        try:
            assert query.awaitTermination(120)
        finally:
            query.stop()

    same = F.expr("a.user = b.user AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR")
    joined = (
        stream().alias("a").join(stream().alias("b"), same).select("a.user", "a.at", "a.n", F.col("b.n").alias("m"))
    )
    run("join", joined.dropDuplicates(["user", "at"]))
    windows = stream().dropDuplicates(["user", "at"]).groupBy(F.window("at", "10 minutes"), "user")
    run("two", windows.agg(F.sum("n").alias("total")))
    by_user = stream().groupBy("user")
    run("timers", by_user.transformWithState(Kept(None), OUT, "Append", "EventTime"))
    run("ttl", by_user.transformWithState(Kept(3_600_000), OUT, "Append", "ProcessingTime"))
    run("stateless", own.readStream.schema("n long").json(str(source)))
    return folder


def read(session, checkpoint, part=None, **options):
    found = read_checkpoint(session, checkpoint, part, **options)
    return pl.concat([pl.DataFrame(pl.from_arrow(found.schema.empty_table())), *found.frames()])


@pytest.mark.parametrize(
    ("query", "parts"),
    [
        ("two", ["default (store of", "default (store of"]),
        ("join", ["default (store of", "left (join side of", "right (join side of"]),
        *(
            (one, ["by_name (MapState of", "seen (ListState of", "timers (TimerState of", "total (ValueState of"])
            for one in ("timers", "ttl")
        ),
    ],
)
def test_the_parts_of_every_query_are_named_where_one_must_be_chosen(session, checkpoints, query, parts):
    with pytest.raises(
        KeyfoldError, match="; ".join(re.escape(one) + "[^;]*batches 0 to [0-9]+[)]" for one in parts) + "$"
    ):
        read_checkpoint(session, checkpoints / query)


def test_a_part_that_several_operators_have_is_read_of_the_one_that_is_named(session, checkpoints):
    place = checkpoints / "two"
    windows, keys = sorted(
        (read(session, place, "default", operator=operator) for operator in (0, 1)), key=lambda rows: -rows.width
    )
    assert {*windows["operator"], *keys["operator"]} == {0, 1}
    assert windows.columns == ["operator", "window", "user", "sum"]
    assert sorted((row["window"]["start"], row["user"], row["sum"]) for row in windows.to_dicts()) == [
        (at(0), "ann", 1),
        (at(0), "bob", 2),
        (at(10), "ann", 3),
    ]
    assert keys.columns == ["operator", "user", "at"]
    assert sorted(keys.select("user", "at").rows()) == sorted((user, at(minute)) for user, minute, _ in CLICKS)


def test_both_sides_of_a_join(session, checkpoints):
    for side in ("left", "right"):
        assert sorted(read(session, checkpoints / "join", side).select("user", "at", "n").rows()) == [
            ("ann", at(1), 1),
            ("ann", at(14), 3),
            ("bob", at(3), 2),
        ]


def test_values_lists_maps_and_timers(session, checkpoints):
    place = checkpoints / "timers"
    assert sorted(read(session, place, "total").rows()) == [(0, "ann", 4), (0, "bob", 2)]
    assert sorted(read(session, place, "seen").rows()) == [(0, "ann", 1), (0, "ann", 3), (0, "bob", 2)]
    assert sorted(read(session, place, "by_name").rows()) == [
        (0, "ann", "n1", 1),
        (0, "ann", "n3", 3),
        (0, "bob", "n2", 2),
    ]
    assert sorted(read(session, place, "timers").rows()) == [(0, "ann", IN_2030), (0, "bob", IN_2030)]


def test_a_time_to_live_is_a_column(session, checkpoints):
    before = datetime.now(UTC)
    for part, rows in (("total", 2), ("seen", 3), ("by_name", 3)):
        found = read(session, checkpoints / "ttl", part)
        assert found.height == rows
        assert (
            found["ttl_expires_at"].is_between(datetime(2026, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)).all()
        )
        assert (found["ttl_expires_at"] - before).dt.total_minutes().is_between(0, 60).all()


@pytest.mark.parametrize(
    ("query", "part", "operator", "message"),
    [
        ("two", "total", None, r"no state total; it has default \(store of operator 0, .*operator 1"),
        ("two", "default", None, "several parts of state default: name one; it has default"),
        ("two", "default", 7, "no state default of operator 7"),
        ("join", None, None, "several parts of state : name one; it has default"),
        ("stateless", None, None, "holds no state: its query keeps none"),
        ("nowhere", None, None, "is no checkpoint of a Spark query"),
    ],
)
def test_a_part_that_is_not_there_once_is_an_error_that_says_what_is(
    session, checkpoints, query, part, operator, message
):
    with pytest.raises(KeyfoldError, match=message):
        read_checkpoint(session, checkpoints / query, part, operator=operator)


def test_another_batch_than_there_is_says_which_there_are(session, checkpoints):
    place = checkpoints / "join"
    with pytest.raises(KeyfoldError, match="no state of batch 7; retained: 0 to ") as refused:
        read_checkpoint(session, place, "left", batch=7)
    last = int(str(refused.value).rpartition(" ")[2])
    assert read(session, place, "left", batch=last).height == 3


def test_a_moved_checkpoint_is_read_where_it_is(session, checkpoints, tmp_path):
    moved = tmp_path / "moved to here"
    (checkpoints / "timers").rename(moved)
    try:
        assert sorted(read(session, moved, "total").rows()) == [(0, "ann", 4), (0, "bob", 2)]
    finally:
        moved.rename(checkpoints / "timers")


def test_state_that_is_damaged_is_an_error_that_says_where(session, checkpoints, tmp_path):
    broken = shutil.copytree(checkpoints / "join", tmp_path / "broken")
    for file in broken.glob("state/*/*/SSTs/*.sst"):
        file.unlink()
    with pytest.raises(KeyfoldError, match=f"checkpoint {broken}: its state cannot be read: .*sst"):
        write_state(read_checkpoint(session, broken, "default"), tmp_path / "out")


def test_rows_go_to_files_with_their_microseconds(session, checkpoints, tmp_path):
    assert write_state(read_checkpoint(session, checkpoints / "join", "left"), tmp_path / "out").rows == 3
    times = pl.read_parquet(tmp_path / "out" / "*.parquet")["at"].dt.to_string("%FT%T%.6fZ")
    assert set(times) == {f"2026-01-01T00:{minute:02d}:00.000000Z" for _, minute, _ in CLICKS}


@pytest.fixture
def keyfold(spark, lakehouse, monkeypatch):
    """The commands, in the session that is there."""
    for module in (ingest_command, run_command, state_tools, state_reading):
        monkeypatch.setattr(module, "runners_for", lambda *_: nullcontext(spark))
    monkeypatch.setenv("KEYFOLD_HOME", str(lakehouse.home))

    def call(*words, code=0):
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.output

    return call


PURCHASES = [("ann", 5, "x", 1), ("bob", -1, "y", 2), ("cat", 7, "z", 3), ("ann", 1, "3", 4)]


def test_the_commands_take_a_stock_checkpoint_to_a_job_that_goes_on_from_it(keyfold, lakehouse, checkpoints, tmp_path):
    """Two of its parts go to files, and are joined by key; the file of that seeds a job, which adds what comes to it."""
    landing = tmp_path / "landing"
    landing.mkdir()

    def come(purchases):
        lines = [
            json.dumps({"item": item, "quantity": quantity, "model": [model], "time": at(minute).isoformat()})
            for item, quantity, model, minute in purchases
        ]
        (landing / f"{len(list(landing.iterdir()))}.ndjson").write_text("\n".join(lines))
        keyfold("ingest", "sales", "--settle", "0", "--from", landing)

    come([("before", 1, "w", 0)])
    of = ("state", "checkpoint", checkpoints / "timers")
    for part in ("total", "seen"):
        keyfold(*of, part, "--to", tmp_path / part)
    tables = duckdb.connect()
    for part in ("total", "seen"):
        tables.read_parquet(str(tmp_path / part / "*")).create_view(part)
    (joined,) = re.findall(r"```sql\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    tables.sql(joined).write_parquet(str(tmp_path / "seed.parquet"))
    kept = {item: (quantity, models) for item, quantity, models in pl.read_parquet(tmp_path / "seed.parquet").rows()}
    assert {item: (quantity, sorted(models)) for item, (quantity, models) in kept.items()} == {
        "ann": (4, [1, 3]),
        "bob": (2, [2]),
    }
    assert {json.loads(line)["user"] for line in keyfold(*of, "total").splitlines()} == {"ann", "bob"}

    seed = ("state", "bootstrap", "purchase_totals", "--from", tmp_path / "seed.parquet", "--from-version", "latest")
    assert "dry_run: yes" in keyfold(*seed, "--dry-run")
    assert "  rows: 2\n  keys: 2\n" in keyfold(*seed)
    come(PURCHASES)
    keyfold("run", "purchase_totals")

    totals = {item: quantity for item, (quantity, _) in kept.items()}
    models = {item: set(map(str, some)) for item, (_, some) in kept.items()}
    for item, quantity, model, _ in PURCHASES:
        totals[item] = totals.get(item, 0) + quantity
        models[item] = models.get(item, set()) | {model}
    latest = pl.read_delta(str(lakehouse.table("latest_purchase_totals")))
    seen = {row["item"]: (row["quantity"], row["models"]) for row in latest.to_dicts()}
    assert seen == {item: (total, sorted(models[item])) for item, total in totals.items()}


def test_a_moved_checkpoint_is_read_on_this_machine_by_links_and_corrected_paths(tmp_path):
    metadata, snapshot = Path("state/0/_metadata/v2/0"), Path("state/0/0/1.zip")
    moved = tmp_path / "50% more"
    for path, text in ((metadata, 'v1\n["file:/was/here/state/0/_stateSchema/default/0_a"]'), (snapshot, "rows")):
        (moved / path).parent.mkdir(parents=True)
        (moved / path).write_text(text)
    (moved / "commits").mkdir()
    with pytest.raises(KeyfoldError, match=r"set KEYFOLD_SPARK_MASTER=local\[\*\]"):
        view_of(SimpleNamespace(conf={"spark.master": "spark://host:7077"}), moved)  # type: ignore[arg-type]
    view = view_of(SimpleNamespace(conf={"spark.master": "local[2]"}), moved)  # type: ignore[arg-type]
    assert f'"file:{view.name}/state/0/_stateSchema/default/0_a"' in (Path(view.name) / metadata).read_text()
    assert (Path(view.name) / snapshot).read_text() == "rows"
