"""Keyed jobs on a home in a bucket: two drivers, dead ones and frozen ones lose nothing and double nothing."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import boto3
import pytest

from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import FullRefresh, Incremental
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import Lakehouse, exclusive, fail_points
from keyfold.lakehouse.files import files_below, second_name
from keyfold.storage.lease import LeaseTakenError
from keyfold.storage.place import path_below
from tests.keyfold.keyed.forked_runs import FILE_BY_FILE, REFUSED
from tests.keyfold.keyed.toy_jobs import totals
from tests.lake import Lake
from tests.object_store import REGION

PROMISE = "A driver on S3 that is killed, or frozen and thawed, at any write"
REPOSITORY = Path(__file__).parents[3]
POINTS = [
    point
    for point in fail_points.POINTS
    if point.startswith(("plan", "work", "state", "done", "commit", "merge", "generation"))
]

SOME_OR_ALL = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.chaos)])
"""`make test` stops a run at each fifth place, `make chaos` at each one."""

MODES = {"incremental": Incremental(), "full_refresh": FullRefresh()}
PATIENCE = timedelta(seconds=120)


@pytest.fixture
def lakehouse(bucket):
    return Lakehouse(f"s3a://{bucket}/home")


@pytest.fixture
def homes(without_spark, lakehouse):
    """Makes homes where a job has run once, and two more files have come."""
    Lake(lakehouse).click(("ann", 0), ("bob", 1))
    run_job(lakehouse, totals(), runners=without_spark)
    Lake(lakehouse).click(("ann", 2))
    Lake(lakehouse).click(("eve", 3))
    numbers = itertools.count()

    def copy():
        copied = Lakehouse(f"{lakehouse.home}-{next(numbers)}")
        for file in files_below(lakehouse.home):
            second_name(file.path, copied.home / str(path_below(file.path, lakehouse.home)))
        return copied

    return copy


@pytest.fixture
def forked(lakehouse):
    """Has a run done in a process of its own; see `forked_runs`."""
    command = [sys.executable, "-m", "tests.keyfold.keyed.forked_runs"]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    frozen = set()

    def ask(**request):
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"{json.dumps(request)}\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        (frozen.add if answer["frozen"] else frozen.discard)(answer["pid"])
        return answer

    with process:
        yield ask
        for pid in tuple(frozen):
            ask(thaw=pid)
        assert process.stdin
        process.stdin.close()


def run_when_free(spark, lakehouse, mode=None):
    """Run, once nobody holds the job's lease any more."""
    with exclusive(lakehouse.job("totals"), "job totals", patience=PATIENCE):
        pass
    return run_job(lakehouse, totals(), mode or Incremental(), options=FILE_BY_FILE, runners=spark)


def count(told, lakehouse, what):
    """Count a fault, by the rows of the tables and by the journal."""
    expected = Counter({("totals", "ann", 2): 1, ("totals", "bob", 1): 1, ("totals", "eve", 1): 1})
    expected += Counter({("changes", "ann", 1): 2, ("changes", "bob", 1): 1, ("changes", "eve", 1): 1})
    told.count(
        expected, Counter((name, *row) for name in ("totals", "changes") for row in Lake(lakehouse).rows(name)), what
    )
    live = live_generation(lakehouse, "totals")
    done = live and live.journal.last_done()
    assert done, what
    assert (done.total_events, done.total_rows) == (4, {"totals": 4, "changes": 4, "late.totals": 0}), what


def test_the_folder_of_a_dead_generation_is_no_other_one_s(without_spark, lakehouse, cut_power):
    """A run that lost its lease may still write there."""
    Lake(lakehouse).click(("ann", 0))
    run_job(lakehouse, totals(), runners=without_spark)
    names = []
    for _ in range(3):
        assert cut_power("done: before", lambda: run_job(lakehouse, totals(), FullRefresh(), runners=without_spark))
        names.append([folder.name for folder in lakehouse.job("totals").glob("generation-*")])
    assert names == [["generation-0001", f"generation-{number:04d}"] for number in (2, 3, 4)]
    assert Lake(lakehouse).rows("totals") == [("ann", 1)]


@SOME_OR_ALL
def test_a_run_that_is_killed_at_any_point_is_made_good_once_its_lease_is_over(
    without_spark, homes, forked, tally, every
):
    told = tally("S3: killed at each named point")
    killed, ended = [], {}
    for point in POINTS[::every]:
        mode = "full_refresh" if point.startswith("generation") else "incremental"
        killed.append((homes(), point))
        ended = forked(home=str(killed[-1][0].home), mode=mode, kill=f"{point}#1")
        assert ended["killed"], f"{point}: {ended}"
    # Its lease is known by who holds it, until it ends.
    with pytest.raises(
        LeaseTakenError, match=rf"job totals is already running on .* process {ended['pid']}, lease renewed"
    ):
        run_job(killed[-1][0], totals(), runners=without_spark)
    for lakehouse, point in killed:
        run_when_free(without_spark, lakehouse)
        count(told, lakehouse, point)


@SOME_OR_ALL
@pytest.mark.parametrize("mode", ["incremental", pytest.param("full_refresh", marks=pytest.mark.chaos)])
def test_a_run_that_is_frozen_before_any_of_its_writes_and_thawed_behind_another_harms_nothing(
    without_spark, homes, forked, tally, mode, every
):
    told = tally(f"S3: frozen before each write of a run ({mode})")
    frozen, answer = [], {}
    for number in itertools.count(step=every):
        lakehouse = homes()
        answer = forked(home=str(lakehouse.home), mode=mode, freeze=number)
        if not answer["frozen"]:
            break
        frozen.append((number, lakehouse, answer["pid"]))
    # The last one came to its end without being frozen.
    assert answer["code"] == 0
    assert len(frozen) >= 10 // every
    for number, lakehouse, pid in frozen:
        run_when_free(without_spark, lakehouse, MODES[mode])
        thawed = forked(thaw=pid)
        # The last two are the clock and the checksums: behind the clock there may be nothing left to write, and so no look.
        assert thawed["code"] == REFUSED or number >= frozen[-1][0] - 1, (number, thawed)
        assert (
            thawed["told"].startswith("LeaseLostError: job totals: this run has lost its lease") or not thawed["told"]
        )
        run_when_free(without_spark, lakehouse)
        count(told, lakehouse, f"frozen before write {number}: {thawed}")


def test_a_run_that_is_frozen_and_thawed_amid_the_planning_of_another_harms_nothing(
    without_spark, homes, forked, tally
):
    """The first is frozen before it writes its last plan; the other comes in between, and both are refused or done."""
    lakehouse = homes()
    answer = forked(home=str(lakehouse.home), mode="incremental", freeze=1)
    assert answer["frozen"]

    def thaw(point):
        if point == "plan: one of several":
            forked(thaw=answer["pid"])

    with pytest.MonkeyPatch.context() as patch, suppress(KeyfoldError):
        patch.setattr(fail_points, "act", thaw)
        run_when_free(without_spark, lakehouse)
    run_when_free(without_spark, lakehouse)
    count(tally("S3: thawed amid another run's planning"), lakehouse, "plans of two runs")


def test_uploads_that_a_killed_writer_never_ended_are_in_nobody_s_way(object_store, bucket, without_spark, lakehouse):
    Lake(lakehouse).click(("ann", 0), ("bob", 1))
    run_job(lakehouse, totals(), runners=without_spark)
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
    Lake(lakehouse).click(("ann", 2))
    run_job(lakehouse, totals(), runners=without_spark)
    run_job(lakehouse, totals(), FullRefresh(), runners=without_spark)
    assert Lake(lakehouse).rows("totals") == [("ann", 2), ("bob", 1)]
