"""The script that sees to a browser is run on stand-ins: what it decides is tested, nothing is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
RUNS = "#!/bin/sh\necho Chromium 1\n"
STUB = "#!/bin/sh\necho 'requires the snap to be installed' >&2\nexit 1\n"
INSTALLS = '#!/bin/sh\necho "$*" >>calls\ncase "$*" in *install*) cp bin/spare bin/chromium ;; esac\n'


@pytest.fixture
def machine(tmp_path) -> Path:
    """A folder with the scripts, and a `bin` that holds no more than the tools they need."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "cp", "dirname", "env", "sh"):
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    program(tmp_path, "id", "#!/bin/sh\necho 0\n")
    return tmp_path


@pytest.mark.parametrize("name", ["chromium", "google-chrome", "chromium-browser"])
def test_a_browser_that_is_there_is_found_and_nothing_else_is_done(machine, name):
    program(machine, "apt-get", INSTALLS)
    program(machine, name, RUNS)
    assert browser(machine).stdout == ""
    assert browser(machine, "find").stdout == f"{machine / 'bin' / name}\n"
    assert not (machine / "calls").exists()


def test_a_stub_that_does_not_run_is_none(machine):
    program(machine, "chromium", STUB)
    program(machine, "chromium-browser", RUNS)
    assert browser(machine, "find").stdout == f"{machine / 'bin' / 'chromium-browser'}\n"


def test_without_one_debian_s_package_is_installed(machine):
    program(machine, "apt-get", INSTALLS)
    program(machine, "spare", RUNS)
    assert browser(machine).returncode == 0
    assert "chromium" in (machine / "calls").read_text().split()
    assert browser(machine, "find").returncode == 0


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, "browser: install Chromium or Chrome"),
        ({"CHROMIUM": "/nowhere/chromium"}, "CHROMIUM is /nowhere/chromium, which does not run"),
    ],
)
def test_what_is_missing_is_said_and_fails_in_ci_alone(machine, environment, message):
    told = browser(machine, **environment)
    assert (told.returncode, "the browser tests will be skipped" in told.stdout) == (0, True)
    assert message in told.stderr
    in_ci = browser(machine, CI="true", **environment)
    assert in_ci.returncode == 1
    assert message in in_ci.stderr
    assert browser(machine, "find", **environment).returncode == 1


def browser(machine: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(machine / "scripts" / "browser"), *arguments],
        env={"PATH": str(machine / "bin"), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def program(machine: Path, name: str, text: str) -> None:
    path = machine / "bin" / name
    path.write_text(text)
    path.chmod(0o755)
