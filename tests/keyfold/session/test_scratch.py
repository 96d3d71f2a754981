"""Temporary folders: a living process keeps its own, and those of killed ones are swept."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from keyfold.session import java
from keyfold.session.scratch import new_scratch, sweep_scratch
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
HOLDER = """
import time
from keyfold.session.scratch import new_scratch
folder = new_scratch()
(folder / "blockmgr-1").mkdir()
print(folder, flush=True)
if {waits}:
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def holder(waits: bool) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(waits=waits)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_private_and_goes_with_its_process(temporary):
    process, folder = holder(waits=False)
    assert folder.parent == temporary
    assert process.wait(timeout=30) == 0
    assert not folder.exists()


def test_a_killed_process_s_folder_is_swept_and_a_living_one_s_is_not():
    alive, kept = holder(waits=True)
    killed, left = holder(waits=True)
    own = new_scratch()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    killed.kill()
    killed.wait()
    assert sweep_scratch() == 1
    assert not left.exists()
    assert kept.exists()
    assert own.exists()
    alive.send_signal(signal.SIGKILL)
    alive.wait()
    assert sweep_scratch() == 1


def test_one_that_was_made_this_moment_is_left_and_an_old_one_without_a_lock_is_not(temporary):
    young, old = temporary / "keyfold-scratch-young", temporary / "keyfold-scratch-old"
    young.mkdir()
    old.mkdir()
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert sweep_scratch() == 1
    assert young.exists()


def test_java_gets_its_folders_by_its_environment(temporary, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    variables = java.variables({}, temporary)
    assert variables["SPARK_LOCAL_DIRS"] == str(temporary)
    assert variables["SPARK_SUBMIT_OPTS"] == f"-Dmine=1 -Djava.io.tmpdir={temporary}"


def test_local_folders_that_somebody_has_chosen_stay(temporary, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/fast/disk")
    assert "SPARK_LOCAL_DIRS" not in java.variables({}, temporary)
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert "SPARK_LOCAL_DIRS" not in java.variables({"spark.local.dir": "/fast/disk"}, temporary)


@pytest.mark.slow
def test_a_killed_driver_s_spark_leaves_nothing_that_the_next_one_does_not_sweep(temporary):
    program = (
        "import os, signal\nfrom keyfold.session import build_session\n"
        "spark = build_session()\nspark.range(1000).repartition(4).count()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "KEYFOLD_SPARK_MASTER": "local[2]"}
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, timeout=200, check=False)
    assert done.returncode == -signal.SIGKILL
    left = [path.name for path in temporary.iterdir() if path.name.startswith("keyfold-scratch-")]
    assert len(left) == 1
    # Java sees that its driver is gone, and ends.
    wait_until(lambda: not names_of_processes(left[0]), lambda: names_of_processes(left[0]))
    sweep_scratch()
    others = [path.name for path in temporary.iterdir() if not path.name.startswith("hsperfdata")]
    assert others == []


def names_of_processes(word: str) -> list[str]:
    """The programs that were started with a word in what they were told."""
    names = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word.encode() in (folder / "cmdline").read_bytes():
                names.append((folder / "comm").read_text().strip())
    return names
