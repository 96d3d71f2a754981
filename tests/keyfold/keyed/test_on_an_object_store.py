"""What dead writers leave in a bucket is in nobody's way; killed and frozen drivers are `tests/chaos/test_object_store.py`'s."""

import boto3
import pytest

from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.files import files_below
from tests.keyfold.keyed.toy_jobs import totals
from tests.object_store import REGION


@pytest.fixture
def lakehouse(bucket):
    return Lakehouse(f"s3a://{bucket}/home")


def test_the_folder_of_a_dead_generation_is_no_other_one_s(lake, lakehouse, cut_power):
    """A run that lost its lease may still write there."""
    lake.click(("ann", 0))
    lake.run(totals())
    names = []
    for _ in range(3):
        assert cut_power("done: before", lambda: lake.run(totals(), FullRefresh()))
        names.append([folder.name for folder in lakehouse.job("totals").glob("generation-*")])
    assert names == [["generation-0001", f"generation-{number:04d}"] for number in (2, 3, 4)]
    assert lake.rows("totals") == [("ann", 1)]


def test_uploads_that_a_killed_writer_never_ended_are_in_nobody_s_way(object_store, bucket, lake, lakehouse):
    lake.click(("ann", 0), ("bob", 1))
    lake.run(totals())
    before = [str(file.path) for file in files_below(lakehouse.home)]
    written = [path for path in before if path.endswith((".parquet", ".done.json"))]
    store = boto3.client("s3", endpoint_url=object_store.endpoint, region_name=REGION)
    for path in written:
        # As a writer leaves it that is killed between two parts, also of a name that is there.
        name = {"Bucket": bucket, "Key": path.removeprefix(f"s3a://{bucket}/")}
        upload = store.create_multipart_upload(**name)["UploadId"]
        store.upload_part(**name, UploadId=upload, PartNumber=1, Body=bytes(5 << 20))
    assert written
    assert [str(file.path) for file in files_below(lakehouse.home)] == before
    lake.click(("ann", 2))
    lake.run(totals())
    lake.run(totals(), FullRefresh())
    assert lake.rows("totals") == [("ann", 2), ("bob", 1)]
