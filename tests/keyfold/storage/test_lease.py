"""One holds a lease at a time; who dies loses it, and who stood still for too long finds out before he writes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import timedelta

import pytest

from keyfold.errors import KeyfoldError
from keyfold.storage import lease as module
from keyfold.storage.bucket_path import BucketPath
from keyfold.storage.lease import Lease, LeaseLostError, LeaseTakenError, check_held, leased
from tests.faulty_store import Fault, faulty_store
from tests.waiting import wait_until

SHORT = timedelta(seconds=1)
PATIENCE = timedelta(seconds=60)

HOLDER = """
import sys, time
from datetime import timedelta
from keyfold.storage.lease import leased
from keyfold.storage.place import to_place
with leased(to_place(sys.argv[1]), "job rides", lasts=timedelta(seconds=1)) as lease:
    print("held", flush=True)
    sys.stdin.readline()
    lease.check()
"""


@pytest.fixture
def folder(bucket_url):
    return BucketPath(f"{bucket_url}/home/jobs/rides")


@pytest.fixture
def on_s3(bucket):
    return BucketPath(f"s3a://{bucket}/home/jobs/rides")


@pytest.fixture
def holder(folder):
    """Another process that holds the folder's lease."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_who_comes_second_is_told_who_holds_it_and_has_it_when_the_first_is_over(folder):
    with folder.exclusive("job rides"):
        assert folder.is_held()
        with pytest.raises(
            LeaseTakenError, match=rf"job rides is already running on .*process {os.getpid()}, lease renewed"
        ):
            Lease(folder, "job rides", SHORT).take()
    assert not folder.is_held()
    with folder.exclusive("job rides"):
        check_held()


def test_a_living_holder_keeps_it_for_longer_than_it_lasts(folder):
    with leased(folder, "job rides", lasts=SHORT):
        for _ in range(6):
            time.sleep(SHORT.total_seconds() / 2)
            check_held()
            with pytest.raises(LeaseTakenError):
                Lease(folder, "job rides", SHORT).take()


def test_of_many_that_want_it_at_once_one_has_it(folder):
    holders = [Lease(folder, "job rides", PATIENCE) for _ in range(6)]
    for number in range(2):
        with ExitStack() as held:
            taken = []
            for lease in holders:
                try:
                    lease.take()
                except LeaseTakenError:
                    continue
                held.callback(lease.release)
                taken.append(lease)
            assert len(taken) == 1, number
        holders = [Lease(folder, "job rides", PATIENCE) for _ in range(6)]


def test_a_killed_holder_loses_it_by_itself(folder, holder):
    with pytest.raises(LeaseTakenError, match=rf"process {holder.pid},.*expires 1 s after its last renewal"):
        Lease(folder, "job rides", SHORT).take()
    holder.kill()
    with leased(folder, "job rides", patience=PATIENCE):
        check_held()


def test_a_holder_that_was_frozen_for_too_long_finds_it_lost_and_the_other_keeps_it(folder, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    with leased(folder, "job rides", patience=PATIENCE) as lease:
        os.kill(holder.pid, signal.SIGCONT)
        _, told = holder.communicate("go on\n")
        assert "LeaseLostError: job rides: this run has lost its lease" in told
        lease.check()
        # The one that was frozen gave nothing up that is not its own.
        with pytest.raises(LeaseTakenError):
            Lease(folder, "job rides", SHORT).take()


def test_no_file_is_written_under_a_lease_that_is_lost(folder, monkeypatch):
    with leased(folder, "job rides") as lease:
        (folder / "before.json").write_json({})
        monkeypatch.setattr(lease, "_sure_until", 0.0)
        with pytest.raises(LeaseLostError, match="run it again"):
            (folder / "after.json").write_json({})
    assert [path.name for path in folder.glob("*.json")] == ["before.json"]
    (folder / "after.json").write_json({})


def test_a_store_that_refuses_is_told_with_what_to_look_at(on_s3, object_store, monkeypatch):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        faulty.choose = lambda _: Fault.DENIED
        with pytest.raises(KeyfoldError, match=r"jobs/rides cannot be written: .* AWS_ACCESS_KEY_ID") as refused:
            on_s3.exclusive("job rides").__enter__()
    assert "planted" not in str(refused.value)


@pytest.mark.parametrize(
    ("fault", "nth"),
    [
        pytest.param(fault, nth, marks=() if fault is Fault.LOST and nth < 2 else pytest.mark.slow)
        for fault in (Fault.LOST, Fault.CUT, Fault.BUSY)
        for nth in range(4)
    ],
)
def test_a_lost_answer_loses_no_lease(on_s3, bucket, object_store, monkeypatch, fault, nth):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        writes = iter(range(1000))
        faulty.choose = lambda request: fault if request.conditional and next(writes) == nth else None
        with leased(on_s3, "job rides", lasts=2 * SHORT):
            time.sleep(3 * SHORT.total_seconds())
            check_held()
        with leased(on_s3, "job rides", lasts=2 * SHORT):
            check_held()
        assert faulty.count(fault) == 1


def test_a_store_that_cannot_be_reached_ends_it_in_time(on_s3, object_store, monkeypatch):
    with faulty_store(object_store.endpoint) as faulty:
        monkeypatch.setenv("AWS_ENDPOINT_URL", faulty.endpoint)
        with leased(on_s3, "job rides", lasts=SHORT) as lease:
            faulty.choose = lambda _: Fault.BUSY
            wait_until(lambda: is_lost(lease), "a lease that could not be renewed was never lost")
            faulty.choose = lambda _: None
    assert not module._HELD


def is_lost(lease):
    try:
        lease.check()
    except LeaseLostError:
        return True
    return False
