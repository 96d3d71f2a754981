"""Locks: held for life and no longer, waited for within a bound, and never taken for held by a mere look."""

import fcntl
import os
import subprocess
import sys
import threading
import time

import pytest

from keyfold.errors import KeyfoldError
from keyfold.machine import is_locked, lock_for_life, open_lock, take

HOLDER = """
import subprocess, sys, time
from pathlib import Path
from keyfold.machine import lock_for_life
lock_for_life(Path(sys.argv[1]))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print(child.pid, flush=True)
time.sleep(60)
"""


def test_a_lock_is_held_for_life_and_goes_with_a_killed_process_though_its_children_live(tmp_path):
    path = tmp_path / "a.lock"
    assert not is_locked(path)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        assert is_locked(path)
        with pytest.raises(BlockingIOError):
            lock_for_life(path)
        holder.kill()
        holder.wait()
        os.kill(child, 0)
        assert not is_locked(path)
    finally:
        holder.kill()
        holder.wait()
        os.kill(child, 9)
        holder.stdout.close()


def test_a_lock_that_is_held_is_waited_for_within_the_bound(tmp_path):
    mine, other = open_lock(tmp_path / "a.lock"), open_lock(tmp_path / "a.lock")
    take(other)
    with pytest.raises(BlockingIOError):
        take(mine, seconds=0.1)
    freed = threading.Timer(0.2, os.close, [other])
    freed.start()
    take(mine, seconds=60)
    freed.join()
    os.close(mine)
    assert not is_locked(tmp_path / "a.lock")


def test_without_a_bound_a_lock_is_waited_for_until_it_is_free(tmp_path):
    mine, other = open_lock(tmp_path / "a.lock"), open_lock(tmp_path / "a.lock")
    take(other)
    got = threading.Thread(target=take, args=[mine])
    got.start()
    time.sleep(0.2)
    assert got.is_alive()
    os.close(other)
    got.join(timeout=60)
    assert not got.is_alive()
    os.close(mine)


def test_one_that_only_looks_neither_holds_a_lock_nor_keeps_one_from_it(tmp_path):
    path = tmp_path / "a.lock"
    mine = open_lock(path)
    with open(path, "rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_locked(path)
        gone = threading.Timer(0.1, fcntl.flock, [looking, fcntl.LOCK_UN])
        gone.start()
        take(mine, seconds=60)
        gone.join()
    assert is_locked(path)
    os.close(mine)


def test_what_stands_in_the_place_of_a_lock_is_neither_followed_nor_waited_for(tmp_path):
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        open_lock(tmp_path / "link")
    with pytest.raises(OSError, match="symbolic"):
        is_locked(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    assert not is_locked(tmp_path / "pipe")


def test_a_folder_is_one_run_s_and_free_when_that_is_over(tmp_path):
    assert not tmp_path.is_held()
    with tmp_path.exclusive("job rides"):
        assert tmp_path.is_held()
        with pytest.raises(KeyfoldError, match="job rides is already running"), tmp_path.exclusive("job rides"):
            pass
    assert not tmp_path.is_held()
