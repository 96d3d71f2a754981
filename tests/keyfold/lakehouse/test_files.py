"""Files and folders of a home, by the one seam that knows disks and buckets: both do the same; data files are whole or not there."""

import ast
import errno
import os
import resource
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import keyfold
from keyfold.errors import KeyfoldError
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.data_files import write_data_file, write_rows
from keyfold.lakehouse.fail_points import POINTS
from keyfold.storage.disk_path import DiskPath
from tests.examples import examples
from tests.faulty_store import Fault, faulty_store


@pytest.fixture(params=["disk", "object store"])
def home(request, tmp_path):
    """A home of each kind."""
    if request.param == "disk":
        return Lakehouse(tmp_path / "home").home
    return Lakehouse(f"s3a://{request.getfixturevalue('bucket')}/home").home


@pytest.fixture
def in_store(bucket):
    return Lakehouse(f"s3a://{bucket}/home").home


def stop_after(steps):
    """A function that can be called so many times."""
    left = iter(range(steps))

    def stop():
        if next(left, None) is None:
            raise KeyboardInterrupt

    return stop


def listed(folder):
    return sorted((str(file.path.relative_to(folder)), file.size) for file in folder.files_below())


@pytest.mark.parametrize("write", ["write_durably", "write_once"])
def test_what_is_written_is_read_and_nothing_else_is_there(home, write):
    getattr(home / "a" / "file", write)(b"content")
    with (home / "a" / "file").open_for_reading() as file:
        assert file.read() == b"content"
    (home / "a").sweep()
    assert listed(home) == [("a/file", 7)]


def test_a_new_file_that_breaks_off_is_not_there(home):
    with (home / "whole").new_file() as file:
        file.write(b"whole")

    def break_off():
        with (home / "half").new_file() as file:
            file.write(b"half")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        break_off()
    assert listed(home) == [("whole", 5)]


def test_a_second_name_outlives_the_first(home):
    (home / "a" / "file").write_durably(b"content")
    (home / "a" / "file").add_name(home / "b" / "c" / "other")
    (home / "a").remove_tree()
    assert listed(home) == [("b/c/other", 7)]


def test_a_tree_is_moved_whole_and_removed_whole(home):
    for name in ("record", "a/b", "a/c/d"):
        (home / "from" / name).write_durably(name.encode())
    (home / "from").move_tree(home / "to", last="record")
    assert listed(home) == [("to/a/b", 3), ("to/a/c/d", 5), ("to/record", 6)]
    (home / "to").remove_tree()
    (home / "to").remove_tree(missing_ok=True)
    assert listed(home) == []


@pytest.mark.parametrize("last", ["record", "a/c"])
def test_a_move_that_breaks_off_leaves_the_folder_whole_where_its_last_part_is(in_store, monkeypatch, last):
    for name in ("record", "a/b", "a/c/d"):
        (in_store / "from" / name).write_durably(name.encode())
    whole = [("a/b", 3), ("a/c/d", 5), ("record", 6)]
    for steps in range(6):
        with monkeypatch.context() as patch:
            patch.setattr("keyfold.storage.bucket_path.check_held", stop_after(steps))
            with pytest.raises(KeyboardInterrupt):
                (in_store / "from").move_tree(in_store / "to", last=last)
        for folder in ("from", "to"):
            if (in_store / folder / last).exists():
                assert listed(in_store / folder) == whole
        assert listed(in_store / "from") == whole or listed(in_store / "to") == whole
        if steps >= 4:
            break
    assert listed(in_store / "to") == whole


@pytest.mark.parametrize("home", ["object store"], indirect=True)
def test_what_was_written_once_stays_as_it_was(home):
    (home / "done").write_once(b"first")
    (home / "done").write_once(b"first")
    with pytest.raises(KeyfoldError, match=r"done was written by another run in the meantime.*Run it again"):
        (home / "done").write_once(b"second")
    assert (home / "done").read_bytes() == b"first"


def test_a_record_is_replaced_by_who_has_read_it(home):
    (home / "record").replace_content(b"one", "")
    content, tag = (home / "record").read_with_tag()
    assert content == b"one"
    (home / "record").replace_content(b"two", tag)
    assert (home / "record").read_bytes() == b"two"


@pytest.mark.parametrize("home", ["object store"], indirect=True)
def test_a_record_that_another_run_has_replaced_is_left_as_it_is(home):
    (home / "record").replace_content(b"one", "")
    _, tag = (home / "record").read_with_tag()
    (home / "record").replace_content(b"two", tag)
    for stale in (tag, ""):
        with pytest.raises(KeyfoldError, match="was written by another run"):
            (home / "record").replace_content(b"three", stale)
    assert (home / "record").read_bytes() == b"two"


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(st.sampled_from([Fault.LOST, Fault.CUT, Fault.BUSY, None]), max_size=3))
def test_a_write_whose_answer_is_lost_is_no_other_run_s(in_store, object_store, faults):
    place = in_store / f"done-{os.urandom(4).hex()}"
    with faulty_store(object_store.endpoint) as faulty, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        wanted = iter(faults)
        faulty.choose = lambda request: next(wanted, None) if request.conditional else None
        place.write_once(b"mine")
        _, tag = place.read_with_tag()
        place.replace_content(b"mine again", tag)
    assert place.read_bytes() == b"mine again"


BASE = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("count", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("pair", pa.struct([("at", pa.timestamp("us", tz="UTC"))])),
    ]
)
TIME = st.none() | st.integers(-(10**15), 10**15).map(lambda at: BASE + timedelta(microseconds=at))
ROW = st.tuples(
    st.integers(0, 3), TIME, TIME.map(lambda at: at and at.replace(tzinfo=None)), st.fixed_dictionaries({"at": TIME})
)


def frame_of(rows) -> pl.DataFrame:
    return pl.DataFrame(rows, pl.from_arrow(SCHEMA.empty_table()).schema, orient="row")  # type: ignore[union-attr]


@examples(60)
@given(st.lists(ROW, min_size=1, max_size=20))
def test_of_rows_that_go_by_the_same_is_told_as_of_rows_in_memory(tmp_path_factory, rows):
    table, frame = DiskPath(tmp_path_factory.mktemp("table")), frame_of(rows)
    by_frame, by_query = write_data_file(frame, table, SCHEMA), write_rows(frame.lazy(), table, SCHEMA)
    assert pl.read_parquet(table / by_query.path).equals(frame)
    assert (table / by_query.path).stat().st_size == by_query.bytes
    ignored = {"path": "", "bytes": 0}
    assert by_query.model_copy(update=ignored) == by_frame.model_copy(update=ignored)


@pytest.fixture
def little_room():
    """A file may have a megabyte; more is refused in the midst of a write, as by a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("write", [write_data_file, lambda frame, *where: write_rows(frame.lazy(), *where)])
def test_a_disk_that_takes_no_more_is_told_as_such_and_nothing_is_left(tmp_path, little_room, write):
    schema = pa.schema([("number", pa.int64())])
    frame = pl.DataFrame({"number": np.random.default_rng(1).integers(0, 2**62, 2_000_000)})
    with pytest.raises(OSError, match=str(tmp_path)) as told:
        write(frame, tmp_path, schema)
    assert told.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []


def marked():
    for file in Path(keyfold.__file__ or "").parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fail_point":
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{file}: a fail point has a fixed name"
                assert isinstance(name.value, str), file
                yield name.value


def test_each_point_that_the_code_marks_is_in_the_list_once_and_no_other():
    assert sorted(POINTS) == sorted(set(marked()))
