"""Tables are made with what their columns mean, stay tables that anybody reads and writes, and are read wherever they lie."""

from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from keyfold.columns import column, required
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse, create_table, is_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from keyfold.lakehouse.log_changes import changes_since, next_change, snapshot
from keyfold.lakehouse.positions import position_at
from keyfold.lakehouse.presence import empty_entries, take_back
from keyfold.lakehouse.reading import count_rows, data_file_paths, read_batches, read_parquet, scan_table
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.stream import INGESTED_AT, TIMESTAMP, Stream

TRIPS = pa.schema(
    [
        required("bus", pa.string(), "The bus: 'its' \"name\" | or number", lineage="vehicle"),
        column("speed", pa.float64(), "Mean speed; NULL for a trip of one moment", unit="km/h"),
        pa.field("note", pa.list_(pa.string())),
    ]
)
SPOKEN = {
    "bus": "The bus: 'its' \"name\" | or number",
    "speed": "Mean speed, km/h; NULL for a trip of one moment",
    "note": None,
}


def comments(path) -> dict[str, str | None]:
    return {field.name: field.metadata.get("comment") for field in DeltaTable(str(path)).schema().fields}


def test_columns_have_their_meaning_as_comment_and_no_more(tmp_path):
    create_table(tmp_path / "trips", TRIPS)
    assert comments(tmp_path / "trips") == SPOKEN
    fields = DeltaTable(str(tmp_path / "trips")).schema().fields
    assert all(field.metadata.keys() <= {"comment"} and field.nullable for field in fields)


def test_the_comments_stay_after_rows_were_written(tmp_path):
    table = tmp_path / "trips"
    create_table(table, TRIPS)
    rows = pl.DataFrame({"bus": ["b7"], "speed": [31.5], "note": [["late"]]})
    append_files(table, [write_data_file(rows, table, TRIPS)], "application", 0)
    # Another Delta writer, which does not know of comments.
    rows.write_delta(str(table), mode="append")
    assert comments(table) == SPOKEN
    assert pl.read_delta(str(table)).height == 2


def test_a_table_that_is_there_stays_as_it_is_whatever_is_now_said_of_its_columns(tmp_path):
    create_table(tmp_path / "trips", TRIPS)
    other = pa.schema([column("bus", pa.string(), "Something else"), *list(TRIPS)[1:]])
    create_table(tmp_path / "trips", other)
    assert comments(tmp_path / "trips") == SPOKEN
    assert DeltaTable(str(tmp_path / "trips")).version() == 0


@pytest.fixture
def clicks() -> Stream:
    return Stream(
        name="clicks",
        schema=pa.schema(
            [
                required("user", pa.string(), "Who clicked"),
                required("time", TIMESTAMP, "When (UTC)"),
            ]
        ),
        event_time="time",
    )


def test_a_column_that_a_stream_gains_comes_with_its_comment(lakehouse, clicks):
    landing = lakehouse.landing("clicks")
    landing.mkdir(parents=True)
    (landing / "a.json").write_text('{"user": "ann", "time": "2026-01-01T12:00:00Z"}\n')
    ingest(lakehouse, clicks, settle=timedelta(0), runners=Runners("local"))
    wider = Stream(
        name="clicks",
        schema=pa.schema([*clicks.schema, column("dwell", pa.float64(), "Time spent", unit="seconds")]),
        event_time="time",
    )
    (landing / "b.json").write_text('{"user": "bob", "time": "2026-01-01T12:01:00Z", "dwell": 2.5}\n')
    ingest(lakehouse, wider, settle=timedelta(0), runners=Runners("local"))
    assert comments(lakehouse.events("clicks")) == {
        "user": "Who clicked",
        "time": "When (UTC)",
        INGESTED_AT: "Arrival: when the file, or the message, that the event came in was admitted (UTC)",
        "dwell": "Time spent, seconds",
    }
    assert sorted(pl.read_delta(str(lakehouse.events("clicks")))["dwell"].to_list(), key=str) == [2.5, None]


@pytest.fixture
def table(tmp_path):
    """A table of four commits."""
    for number in range(4):
        write_deltalake(str(tmp_path / "table"), pl.DataFrame({"at": [number]}), mode="append")
    return tmp_path / "table"


def entry(table, version):
    return table / "_delta_log" / f"{version:020d}.json"


@pytest.mark.parametrize(
    ("checkpointed", "emptied", "up_to", "found", "read_on"),
    [
        (False, (), 3, [], 4),
        (False, (3, 1), 3, [1, 3], 2),
        (False, (3, 1), 2, [1], 2),
        # What a checkpoint holds does not count.
        (True, (1, 3, 4), 4, [4], 4),
    ],
)
def test_empty_entries_are_found_in_order_where_delta_itself_reads_on(
    table, checkpointed, emptied, up_to, found, read_on
):
    if checkpointed:
        DeltaTable(str(table)).create_checkpoint()
        write_deltalake(str(table), pl.DataFrame({"at": [4]}), mode="append")
    for version in emptied:
        entry(table, version).write_bytes(b"")
    assert empty_entries(table, up_to) == found
    assert DeltaTable(str(table)).count() == read_on


def test_where_nothing_says_which_checkpoint_is_the_newest_all_that_is_there_is_looked_at(table):
    DeltaTable(str(table)).create_checkpoint()
    (table / "_delta_log" / "_last_checkpoint").write_bytes(b"")
    entry(table, 0).unlink()
    entry(table, 2).write_bytes(b"")
    assert empty_entries(table, 3) == [2]


def test_who_reads_the_table_or_what_came_to_it_is_told(table):
    entry(table, 2).write_bytes(b"")
    for read in (
        lambda: snapshot(table, "at"),
        lambda: changes_since(table, position_at(table, 1), "at"),
        lambda: next_change(table, position_at(table, 1)),
    ):
        with pytest.raises(KeyfoldError, match=r"table is damaged: entry 2 is empty.*restore it"):
            read()


def test_the_last_one_is_taken_back(table):
    entry(table, 3).write_bytes(b"")
    take_back(table, 3)
    assert empty_entries(table, 2) == []
    assert DeltaTable(str(table)).version() == 2


@pytest.fixture(params=["plain", "my home"])
def wide(tmp_path, request):
    """A table of two files, whose path holds what a URL escapes; the second file has a column more."""
    path = tmp_path / request.param / "table"
    path.parent.mkdir()
    pl.DataFrame({"user": ["ann", "bob"]}).write_delta(str(path))
    more = pl.DataFrame({"user": ["eve"], "clicks": [3]})
    write_deltalake(str(path), more.to_arrow(), mode="append", schema_mode="merge")
    return path


def test_all_rows_are_found_in_every_way(wide):
    assert count_rows(wide) == 3
    assert sorted(row for batch in read_batches(wide) for row in batch.select("user").rows()) == [
        ("ann",), ("bob",), ("eve",)
    ]  # fmt: skip
    assert sorted(pl.concat([read_parquet(path, columns=["user"]) for path in data_file_paths(wide)])["user"]) == [
        "ann", "bob", "eve"
    ]  # fmt: skip


def test_a_query_reads_columns_that_a_file_is_too_old_for_as_null(wide):
    rows = scan_table(wide).filter(pl.col("user") != "bob").select("user", "clicks").collect()
    assert sorted(rows.rows()) == [("ann", None), ("eve", 3)]


@pytest.mark.parametrize("name", ["a%20b", "50%", "a#b", "a?b", "a b", "ä", "a[b]", "a/b c/d"])
def test_a_home_in_a_bucket_that_others_would_look_for_elsewhere_is_refused(name):
    with pytest.raises(KeyfoldError, match="in a bucket its path must be of letters, digits and"):
        Lakehouse(f"s3a://lake/{name}")


@pytest.mark.parametrize("name", ["ab", "A-b_c.d", "a=1/b+2", "a~b"])
def test_any_other_name_is_one_folder_to_delta_s_library_and_to_this_code(bucket, name):
    home = Lakehouse(f"s3a://{bucket}/{name}/home")
    create_table(home.events("clicks"), pa.schema([("user", pa.string())]))
    assert is_table(home.events("clicks"))
    assert (home.events("clicks") / "_delta_log" / f"{0:020d}.json").exists()
    assert list(home.tables()) == ["events.clicks"]


@pytest.mark.parametrize("name", ["50%", "a%b", "%zz", "a#b", "a?b", "a b", "ä+b&c", "s3a:"])
def test_on_a_disk_nearly_any_name_will_do(tmp_path, name):
    home = Lakehouse(tmp_path / name)
    create_table(home.events("clicks"), pa.schema([("user", pa.string())]))
    assert (tmp_path / name / "events" / "clicks" / "_delta_log" / f"{0:020d}.json").exists()
    assert list(home.tables()) == ["events.clicks"]


@pytest.mark.parametrize("name", ["a%20b", "%2F/home", "50%aF", "back\\slash"])
def test_but_those_that_read_like_a_part_of_a_url(tmp_path, name):
    with pytest.raises(KeyfoldError, match="or % before two hexadecimal digits"):
        Lakehouse(tmp_path / name)
