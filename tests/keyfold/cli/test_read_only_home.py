"""Commands on a home that is really read-only: mounted so, in a name space of the test's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.simulation import simulate

KEYFOLD = Path(sys.executable).with_name("keyfold")


def on_a_read_only(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, str(home), str(KEYFOLD), *arguments, "--home", str(home)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def home(tmp_path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    try:
        probe = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$0"', str(folder)]
        subprocess.run(probe, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may not mount a folder, which makes this test's home read-only")
    return folder


def test_ingest_says_in_one_line_that_the_home_cannot_be_written_to(home, tmp_path):
    simulate("ride_points", tmp_path / "landing", size=2, files=4)
    run = on_a_read_only(home, "ingest", "ride_points", "--from", str(tmp_path / "landing"))
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1, run.stderr
    assert (
        "Read-only file system; the lakehouse directory (--home, KEYFOLD_HOME) must be a folder that this user may write to"
        in run.stderr
    )


def test_what_only_reads_works(home):
    run = on_a_read_only(home, "journal", "ride_summaries")
    assert (run.returncode, run.stdout) == (0, "ride_summaries: no batch yet\n"), run.stderr
