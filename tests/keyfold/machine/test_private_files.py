"""What is written is its user's alone, whatever the umask was before, also by what is started after."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WRITE = "import pathlib, sys; pathlib.Path(sys.argv[1]).mkdir(); pathlib.Path(sys.argv[1], 'file').touch()"


def modes(folder: Path) -> list[int]:
    return [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "file")]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_files_and_folders_of_a_process_and_of_its_children_are_private(tmp_path, umask):
    program = (
        "import subprocess, sys\nfrom keyfold.machine import keep_files_private\nkeep_files_private()\n"
        f"subprocess.run([sys.executable, '-c', {WRITE!r}, sys.argv[1]], check=True)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "made")]
    subprocess.run(command, cwd=ROOT, umask=umask, check=True, timeout=60)
    assert modes(tmp_path / "made") == [0o700, 0o600]


def test_what_a_user_denies_themselves_stays_denied():
    program = "import os\nfrom keyfold.machine import keep_files_private\nkeep_files_private()\nprint(os.umask(0))"
    told = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, umask=0o227, check=True, capture_output=True, text=True, timeout=60
    )
    assert int(told.stdout) == 0o277


def test_the_command_line_writes_privately(tmp_path):
    command = [str(Path(sys.executable).with_name("keyfold")), "simulate", "--to", str(tmp_path / "new"), "--size", "5"]
    subprocess.run(command, cwd=ROOT, umask=0o022, check=True, timeout=120, capture_output=True)
    written = [tmp_path / "new", *(tmp_path / "new").rglob("*")]
    assert len(written) > 1
    assert [path for path in written if path.stat().st_mode & 0o077] == []


def test_loading_definitions_leaves_the_process_as_it_is():
    program = "import os, dagster_project.definitions\nprint(os.umask(0))"
    told = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        umask=0o022,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env={name: value for name, value in os.environ.items() if not name.startswith("KEYFOLD_")},
    )
    assert int(told.stdout.split()[-1]) == 0o022
