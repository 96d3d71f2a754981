"""Paths on disks and in buckets behind one interface: nothing outside of `keyfold.storage` asks which it is, and what a store refuses is told."""

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import keyfold
from keyfold.errors import KeyfoldError, first_line
from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.place import to_place
from keyfold.storage.store_failures import StoreError, failure_of_store
from tests.faulty_store import Fault, FaultyStore, faulty_store
from tests.object_store import ObjectStore

PACKAGE = Path(keyfold.__file__).parent
KINDS = {"Path", "PosixPath", "DiskPath", "BucketName", "BucketObject", "BucketPath"}


def asks_for_its_kind(node: Any) -> bool:
    """Whether code asks a value whether it is a place of one kind: by isinstance, or by a pattern."""
    if isinstance(node, ast.MatchClass):
        asked = node.cls
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass")
    ):
        asked = node.args[1]
    else:
        return False
    names = {one.id if isinstance(one, ast.Name) else getattr(one, "attr", "") for one in ast.walk(asked)}
    return bool(names & KINDS)


def test_nothing_outside_of_storage_asks_which_kind_a_place_is():
    asked = [
        f"{file.relative_to(PACKAGE)}: {ast.unparse(node)}"
        for file in PACKAGE.rglob("*.py")
        if not file.is_relative_to(PACKAGE / "storage")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if asks_for_its_kind(node)
    ]
    assert asked == []


@pytest.mark.parametrize(
    "code", ["isinstance(a, Path)", "isinstance(a, str | BucketPath)", "match a:\n    case Path(): pass"]
)
def test_that_is_seen_in_all_its_forms(code):
    assert any(map(asks_for_its_kind, ast.walk(ast.parse(code))))


def test_a_place_has_its_kind_and_keeps_it(tmp_path_factory):
    for text, kind in ((tmp_path_factory.getbasetemp(), DiskPath), ("s3a://lake/home", BucketPath)):
        place = to_place(text)
        assert type(place) is type(to_place(place)) is kind
        below = (
            place / "a" / "b.json",
            place.parent,
            place.with_name("x"),
            place.expanduser().resolve(),
            pickle.loads(pickle.dumps(place)),  # noqa: S301 - made in this line
        )
        assert {type(path) for path in below} == {kind}
        assert str(below[-1]) == str(place)


@pytest.mark.parametrize("fault", [Fault.DENIED, Fault.SKEWED])
def test_what_delta_says_of_a_store_that_refuses_is_the_store_s_failure(
    bucket, object_store: ObjectStore, monkeypatch, fault
):
    table = f"s3a://{bucket}/table"
    write_deltalake(table, pl.DataFrame({"number": [1]}).to_arrow())
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        for before in range(3):
            start = len(faulty.came)
            faulty.choose = lambda request, first=start + before: fault if request.number >= first else None
            with pytest.raises((OSError, DeltaError)) as raised:
                DeltaTable(table).to_pyarrow_table()
            failed = failure_of_store(raised.value, table)
            assert failed is not None
            assert failed.place == table
            assert "\x1b" not in str(failed)


@pytest.mark.parametrize(
    "error", [OSError("(os error 28)"), DeltaError("Invalid JSON"), ValueError("S3"), KeyfoldError()]
)
def test_other_errors_are_not(error):
    assert failure_of_store(error) is None


def test_a_failure_is_found_behind_the_errors_that_came_of_it():
    behind, before = StoreError("busy"), RuntimeError("a batch failed")
    before.__cause__ = behind
    assert failure_of_store(before) is behind


def test_the_first_line_of_an_error_has_its_reason_and_no_colours():
    said = (
        "Kernel error -> Generic S3 error\n  \x1b[31m↳\x1b[0m Error performing GET\n \x1b[31m↳\x1b[0m 403 Forbidden\n"
    )
    assert first_line(OSError(said)) == "Kernel error -> Generic S3 error: 403 Forbidden"


def test_errors_that_came_of_each_other_in_a_ring_are_looked_at_once():
    first, second = OSError("no space left on device"), ValueError("not written")
    first.__context__, second.__cause__ = second, first
    assert failure_of_store(first) is None
    second.__context__ = StoreError("it is busy")
    first.__context__, second.__cause__ = second, None
    second.__context__.__context__ = first
    assert failure_of_store(first) is second.__context__


@pytest.fixture
def faulty(object_store: ObjectStore, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    with faulty_store(object_store.endpoint) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.endpoint)
        yield store


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.CUT, Fault.LOST, Fault.SLOW])
def test_a_write_that_meets_a_fault_once_is_made_in_the_end(faulty: FaultyStore, bucket: str, fault: Fault) -> None:
    faulty.delay = 0.1
    faulty.choose = lambda request: fault if request.number == 0 else None
    place = BucketPath(f"s3a://{bucket}/folder/file")
    place.write_bytes(b"content")
    assert place.read_bytes() == b"content"
    assert faulty.count(fault) == 1


def test_an_answer_that_is_lost_was_to_a_write_that_happened(faulty: FaultyStore, bucket: str) -> None:
    place = BucketPath(f"s3a://{bucket}/file")
    faulty.choose = lambda request: Fault.LOST if request.conditional and not request.number else None
    # The first attempt was done, so that the client's second one finds the object there: nobody knows whose it is.
    with pytest.raises(FileExistsError):
        place.create(b"mine")
    assert [request.method for request, _ in faulty.came] == ["PUT", "PUT"]
    assert place.read_bytes() == b"mine"
