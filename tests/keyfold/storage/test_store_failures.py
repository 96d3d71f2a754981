"""What libraries say where a store refuses is told from damage, and from faults of ours."""

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from keyfold.errors import KeyfoldError, first_line
from keyfold.storage.remote_path import StoreError
from keyfold.storage.store_failures import failure_of_store
from tests.faulty_store import Fault, faulty_store
from tests.object_store import ObjectStore


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
