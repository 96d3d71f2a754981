"""What the reader gives, held against the harness: the same batches, one key group, no state store."""

import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from typer.testing import CliRunner

from keyfold.cli.state_commands import app
from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.state.making.mapping import StateMapping, as_state
from keyfold.state.making.sources import open_source
from keyfold.state.reading import reader
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import read_state
from keyfold.state.reading.state_statistics import list_state, state_statistics
from keyfold.state.rows.keys import wanted_keys
from keyfold.state.rows.lines import json_lines
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import LOCAL
from tests.on_a_grid import moments
from tests.shop import clicks

USERS = ["ann", "bob", "cat", "dan", "eve", "fay"]
BATCHES = st.lists(
    st.lists(st.tuples(st.sampled_from(USERS), moments(90, 5)), min_size=1, max_size=8), min_size=1, max_size=5
)


def played(job, batches):
    """What a job keeps after each of some batches, as the harness has it."""
    harness = TestHarness(job)
    states = []
    for batch in batches:
        harness.batch(clicks(*batch))
        states.append(harness.state)
    return states


def run(lakehouse, job, batches):
    lakehouse.events("clicks").parent.mkdir(parents=True, exist_ok=True)
    for batch in batches:
        clicks(*batch).write_delta(str(lakehouse.events("clicks")), mode="append")
        run_job(lakehouse, job, runners=LOCAL)


def same(found, expected):
    return sorted(found.rows()) == sorted(expected.select(found.columns).rows())


@examples(20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES, key_groups=st.integers(1, 7), asked=st.sampled_from(USERS))
def test_every_batch_reads_as_the_harness_held_it(tmp_path_factory, without_spark, batches, key_groups, asked):
    lakehouse, job = Lakehouse(tmp_path_factory.mktemp("home")), windows(key_groups=key_groups)
    run(lakehouse, job, batches)
    for batch, expected in enumerate(played(job, batches)):
        rows = read_state(lakehouse, job, batch=batch)
        assert same(rows.polars(), expected)
        assert rows.schema.names == job.state.schema.names
        one = read_state(lakehouse, job, batch=batch, keys=[asked])
        assert same(one.polars(), expected.filter(pl.col("user") == asked))


@examples(10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES)
def test_statistics_count_what_the_harness_holds(tmp_path_factory, without_spark, batches):
    lakehouse, job = Lakehouse(tmp_path_factory.mktemp("home")), windows()
    run(lakehouse, job, batches)
    expected = played(job, batches)[-1]
    found = state_statistics(lakehouse, read_state(lakehouse, job))
    assert (found.rows, found.keys) == (expected.height, expected["user"].n_unique())
    due = found.timers["deadline"]
    assert (due.rows, due.first, due.last) == (expected.height, expected["deadline"].min(), expected["deadline"].max())
    assert [one["deadline"] for one in due.next] == expected["deadline"].sort().head(5).to_list()
    assert list_state(lakehouse, "windows")[0].open_events == expected["clicks"].sum()


def test_only_the_partitions_that_may_hold_a_key_are_read(lakehouse, without_spark, land, monkeypatch):
    land(*((user, 1) for user in USERS))
    run_job(lakehouse, windows(), runners=without_spark)
    everything = read_state(lakehouse, windows()).manifests
    assert everything is not None
    assert len(everything) > 1
    (mine,) = read_state(lakehouse, windows(), keys=["ann"]).manifests or {}
    damaged = {label: one if label == mine else b"?" for label, one in everything.items()}
    monkeypatch.setattr(reader, "manifests_of", lambda *_: damaged)
    assert read_state(lakehouse, windows(), keys=["ann"]).polars()["user"].to_list() == ["ann"]
    with pytest.raises(KeyfoldError, match="its state cannot be read"):
        read_state(lakehouse, windows()).polars()


def test_a_generation_that_committed_no_batch_keeps_nothing(lakehouse, without_spark, land, cut_power):
    land(("ann", 1))
    assert cut_power("work: after", lambda: run_job(lakehouse, windows(), runners=without_spark))
    rows = read_state(lakehouse, windows())
    assert rows.batch is None
    assert rows.polars().height == 0
    assert rows.polars().columns == windows().state.schema.names


@pytest.mark.parametrize("style", ["lines of JSON", "parquet"])
def test_what_is_read_may_be_a_seed_whatever_its_form(tmp_path, lakehouse, without_spark, land, style):
    batch = [("ann", 1), ("ann", 14), ("bob", 2), ("cat", 3)]
    land(*batch)
    run_job(lakehouse, windows(), runners=without_spark)
    state, (expected,) = read_state(lakehouse, windows()), played(windows(), [batch])
    if style == "parquet":
        assert write_state(state, tmp_path / "out").rows == expected.height == 4
        assert same(pl.read_parquet(tmp_path / "out" / "*.parquet"), expected)
        assert [path.name for path in tmp_path.iterdir() if path.name != "home"] == ["out"]
    else:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "rows.jsonl").write_text("\n".join(json_lines(state.polars())))
    seed = open_source(lakehouse, str(tmp_path / "out"), windows().key)
    assert same(as_state(windows(), seed, StateMapping()).collect(), expected)


def test_a_failure_leaves_no_half_of_a_folder(tmp_path, lakehouse, without_spark, land):
    land(("ann", 1), ("bob", 2))
    run_job(lakehouse, windows(), runners=without_spark)
    rows = read_state(lakehouse, windows())
    manifests = dict(rows.manifests or {})
    label = max(manifests)
    rows = replace(rows, manifests=manifests | {label: manifests[label][:100]})
    with pytest.raises(KeyfoldError, match="batch 0: its state cannot be read: the manifest of its parts is damaged"):
        write_state(rows, tmp_path / "out")
    with pytest.raises(KeyfoldError, match="the manifest of its parts is damaged"):
        rows.polars()
    assert not [path for path in tmp_path.iterdir() if path.name != "home"]


def test_the_commands_print_what_the_functions_give(lakehouse, without_spark, land, tmp_path):
    batches = [[("ann", 1), ("bob", 3), ("ann", 14)], [("dan", 15), ("bob", 16)]]
    run(lakehouse, windows(), batches)
    first, last = played(windows(), batches)

    def keyfold(*words):
        result = CliRunner().invoke(app, [*words, "--home", str(lakehouse.home)])
        assert result.exit_code == 0, result.output
        return result.stdout

    printed = [json.loads(line) for line in keyfold("read", "windows", "0").splitlines()]
    assert Counter(row["user"] for row in printed) == Counter(first["user"])
    words = ("read", "windows", "0", "--key", "bob")
    (line,) = keyfold(*words).splitlines()
    assert json.loads(line)["clicks"] == 1
    told = json.loads(keyfold("read", "windows", "--to", str(tmp_path / "out"), "--json"))
    assert told["rows"] == last.height == pl.read_parquet(tmp_path / "out" / "*.parquet").height
    assert json.loads(keyfold("stats", "windows", "--json"))["rows"] == last.height


def test_keys_are_read_as_their_columns_want_them(minutes):
    schema, columns = windows().state.schema, ("user", "window")
    rows = pl.DataFrame(
        [("ann", minutes(0), 1, None), ("ann", minutes(10), 2, None), ("bob", minutes(0), 3, None)],
        schema={"user": pl.String, "window": pl.Datetime("us", "UTC"), "clicks": pl.Int64, "deadline": pl.Datetime("us", "UTC")},
        orient="row",
    )  # fmt: skip

    def of(*keys):
        wanted = wanted_keys(keys, columns, schema)
        assert wanted is not None
        return wanted.of(rows)["clicks"].to_list()

    assert of(("ann", minutes(10))) == [2]
    assert of('{"user": "ann", "window": "2026-01-01T00:10:00Z"}') == [2]
    assert of({"user": "ann"}) == [1, 2]
    assert of({"user": "bob"}, {"window": minutes(10)}) == [2, 3]
    for key, fault in [
        ("ann", "JSON object"),
        ({"city": "x"}, "city: not in the key"),
        (("ann",), "1 values: give one for each of the columns"),
        ({"user": "ann", "window": "soon"}, "window is 'soon'"),
        ({"window": 3.5j}, "window is Datetime"),
    ]:
        with pytest.raises(KeyfoldError, match=fault):
            wanted_keys([key], columns, schema)


def test_a_key_of_whole_numbers_is_exactly_what_was_given():
    schema = pa.schema([("card", pa.int64())])

    def of(key):
        wanted = wanted_keys([key], ("card",), schema)
        assert wanted is not None
        return wanted.frames[0]["card"].to_list()

    assert [of(key) for key in (2, 2.0, "2", "2.0", Decimal("2.00"), '{"card": 2}')] == [[2]] * 6
    assert of("9007199254740993.0") == of(Decimal("9007199254740993.0")) == [2**53 + 1]
    for key in (2.5, "2.5", Decimal("1.50"), 2.0**60, 2**63, 2**200, True):
        with pytest.raises(KeyfoldError, match="key column card is Int64"):
            wanted_keys([key], ("card",), schema)
