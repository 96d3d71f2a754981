"""Ingest from a bucket, and into a home in a bucket: the same promises as of folders, against plain Python."""

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion import IngestCounts, ingest_totals, is_unfinished, known_files, rebuild
from keyfold.ingestion import arrays as arrays_module
from keyfold.ingestion.arrays import open_array, write_array
from keyfold.ingestion.listing import list_files
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.storage import bucket_object
from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.place import Place
from tests.faulty_store import Fault, Request, faulty_store
from tests.landings import EVENTS, START
from tests.object_store import ObjectStore
from tests.schemas import schema_of

DRIVER: Any = Runners("local")
"""As much of a session as ingest asks for where it reads files itself."""

CLICKS = replace(EVENTS, schema=schema_of("user string!, seq int64!, at time!"))


def click(seq: int, hours: float = 0, user: str = "u") -> dict[str, Any]:
    return {"user": user, "seq": seq, "at": (START + timedelta(hours=hours)).isoformat()}


def text(*events: dict[str, Any]) -> bytes:
    return "".join(f"{json.dumps(one)}\n" for one in events).encode()


def parquet(*events: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pl.DataFrame(events).with_columns(pl.col("at").str.to_datetime(time_zone="UTC")).write_parquet(file)
    return file.getvalue()


def seqs(lakehouse: Lakehouse) -> list[int]:
    return scan_table(lakehouse.events("clicks")).collect()["seq"].sort().to_list()


@pytest.fixture
def there(bucket: str) -> Lakehouse:
    """A lakehouse in a bucket."""
    return Lakehouse(f"s3a://{bucket}/lake/home")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Iterator[Place]:
    """A machine's temporary folder of its own."""
    monkeypatch.setattr(arrays_module.tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_every_format_goes_from_a_bucket_to_tables_in_a_bucket_once(there, cache):
    landing = there.landing("clicks")
    (landing / "a.ndjson").write_bytes(text(click(1), click(2), click(1)) + b"no json\n")
    (landing / "2016/b.json.gz").write_bytes(gzip.compress(text(click(3), click(2))))
    (landing / "c.parquet").write_bytes(parquet(click(4), click(5)))
    (landing / "d.csv").write_bytes(b"user,seq,at\nu,6,2016-06-21T18:00:00Z\n")
    (landing / "e.xlsx").write_bytes(b"what is this?")
    (landing / "_staging/f.ndjson").write_bytes(text(click(7)))
    (landing / ".g.ndjson").write_bytes(text(click(8)))
    summary = ingest(there, CLICKS, settle=timedelta(hours=1), runners=DRIVER)
    assert (summary.files, summary.accepted, summary.duplicates, summary.quarantined) == (5, 6, 2, 2)
    assert seqs(there) == [1, 2, 3, 4, 5, 6]
    reasons = scan_table(there.quarantine("clicks")).select("file", "line").collect().sort("file").rows()
    assert reasons == [(f"{landing}/a.ndjson", 4), (f"{landing}/e.xlsx", None)]
    again = ingest(there, CLICKS, runners=DRIVER)
    assert (again.files, again.batches, again.changed) == (0, 0, {})
    (landing / "z.ndjson").write_bytes(text(click(3), click(9)))
    assert ingest(there, CLICKS, runners=DRIVER).duplicates == 1
    assert ingest_totals(there, CLICKS) == IngestCounts(6, 12, 7, 2, 3)
    assert not is_unfinished(there, "clicks")


def test_a_home_on_a_disk_takes_files_from_a_bucket_and_a_home_in_a_bucket_takes_them_from_a_disk(
    bucket, lakehouse, there, tmp_path
):
    landing = BucketPath(f"s3a://{bucket}/elsewhere")
    (landing / "a.ndjson").write_bytes(text(click(1)))
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "b.ndjson").write_bytes(text(click(2)))
    for house in (lakehouse, there):
        for source in (landing, tmp_path / "landing", landing):
            ingest(house, CLICKS, source, runners=DRIVER)
        assert seqs(house) == [1, 2]
        assert list(known_files(house, "clicks", landing)) == ["a.ndjson"]
        # The names of the sources lead back to them, wherever the home is.
        rebuild(house, CLICKS, runners=DRIVER)
        assert seqs(house) == [1, 2]


def test_an_object_is_whole_when_it_is_there_and_known_by_its_content(there):
    landing = there.landing("clicks")
    (landing / "a.ndjson").write_bytes(text(click(1)))
    assert ingest(there, CLICKS, settle=timedelta(hours=1), runners=DRIVER).waiting == 0
    # Of one length, within the second that a store's times are told to.
    (landing / "a.ndjson").write_bytes(text(click(2)))
    summary = ingest(there, CLICKS, runners=DRIVER)
    assert (summary.files, list(summary.changed)) == (0, ["a.ndjson"])
    assert ingest(there, CLICKS, reread_changed=True, runners=DRIVER).accepted == 1
    assert seqs(there) == [1, 2]
    (landing / "a.ndjson").write_bytes(text(click(2)))
    assert ingest(there, CLICKS, runners=DRIVER).changed == {}, "the same content again is no change"


def test_an_object_waits_for_its_marker_where_the_stream_has_markers(there):
    landing = there.landing("clicks")
    for name in ("a.ndjson", "b.ndjson", "a.ndjson.done", "whole/c.ndjson", "whole/_SUCCESS"):
        (landing / name).write_bytes(b"")
    found = {file.path: file.is_whole(0) for file in list_files(landing, done_marker=True).files}
    assert found == {"a.ndjson": True, "b.ndjson": False, "whole/c.ndjson": True}


def test_a_folder_of_a_bucket_may_be_emptied_of_what_was_read_and_not_misspelt(there):
    with pytest.raises(KeyfoldError, match=r"s3a://.*/lake/home/landing/clicks does not exist"):
        ingest(there, CLICKS, runners=DRIVER)
    file = there.landing("clicks") / "a.ndjson"
    file.write_bytes(text(click(1)))
    ingest(there, CLICKS, runners=DRIVER)
    file.unlink()
    assert ingest(there, CLICKS, runners=DRIVER).files == 0


@pytest.mark.parametrize(
    "fault", [Fault.LOST, *(pytest.param(one, marks=pytest.mark.chaos) for one in (Fault.BUSY, Fault.CUT))]
)
def test_a_store_that_fails_now_and_then_costs_no_row_and_doubles_none(
    fault, there, object_store: ObjectStore, monkeypatch
):
    landing = there.landing("clicks")
    with faulty_store(object_store.endpoint) as faulty:
        for at in range(3):
            (landing / f"{at}.ndjson").write_bytes(text(*(click(at * 10 + one) for one in range(12))))
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        fresh_connections()

        def choose(request: Request) -> Fault | None:
            return fault if request.number % 9 == 4 else None

        faulty.choose = choose
        ingest(there, CLICKS, max_bytes_per_batch=1, runners=DRIVER)
        assert faulty.count(fault) > 5
        faulty.choose = lambda _: None
        assert seqs(there) == list(range(32))
        assert ingest_totals(there, CLICKS) == IngestCounts(3, 36, 32, 0, 4)
    fresh_connections()


def test_a_store_that_is_gone_quarantines_no_file_and_the_next_run_goes_on(
    there, object_store: ObjectStore, monkeypatch
):
    (there.landing("clicks") / "a.ndjson").write_bytes(text(click(1)))
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        fresh_connections()
        # Not to be had, however often it is asked for: as a policy would have it that was changed.
        faulty.choose = lambda request: Fault.DENIED if request.path.endswith("a.ndjson") else None
        with pytest.raises(KeyfoldError, match=r"ingest of clicks was interrupted: .*a\.ndjson.*run it again"):
            ingest(there, CLICKS, runners=DRIVER)
        faulty.choose = lambda _: None
        assert ingest(there, CLICKS, runners=DRIVER).accepted == 1
        assert scan_table(there.quarantine("clicks")).collect().is_empty()
    fresh_connections()


def test_numbers_of_a_bucket_are_kept_on_disk_within_a_bound_and_read_when_their_copy_is_gone(
    bucket, cache, monkeypatch
):
    folder = BucketPath(f"s3a://{bucket}/ids")
    arrays = {f"{at}.npy": np.arange(at, at + 1000, dtype=np.uint64) for at in range(5)}
    for name, numbers in arrays.items():
        write_array(folder / name, numbers)
    monkeypatch.setattr(arrays_module, "_BYTES", 3 * 8200)
    opened = {name: open_array(folder / name) for name in arrays}
    copies = list(cache.glob("keyfold-cache-*/*"))
    assert len(copies) == 3
    assert {copy.stat().st_mode & 0o777 for copy in copies} == {0o600}
    # Those that were removed since are still mapped, and are fetched again when they are opened again.
    for name, numbers in arrays.items():
        assert (opened[name] == numbers).all()
        assert (open_array(folder / name) == numbers).all()


def test_a_cache_that_others_may_write_to_is_refused(bucket, cache):
    write_array(BucketPath(f"s3a://{bucket}/a.npy"), np.arange(3))
    open_array(BucketPath(f"s3a://{bucket}/a.npy"))
    (folder,) = cache.glob("keyfold-cache-*")
    folder.chmod(0o777)
    with pytest.raises(KeyfoldError, match="is not private to this user"):
        open_array(BucketPath(f"s3a://{bucket}/a.npy"))


def fresh_connections() -> None:
    """Have the next request go where the environment says now."""
    bucket_object._client.cache_clear()
