#!/usr/bin/env python3
"""`scripts/image_in_a_root.py [FOLDER]`: run the steps of deploy/Dockerfile in clean roots of Debian, and then what the image is for.

For machines without Docker. It needs root, Debian's `debootstrap`, and 6 GB in FOLDER (by default /var/tmp/keyfold-image), which keeps
the clean root for the next time. In place of the image `python:3.13-slim` is Debian 13 with its Python 3.13.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from string import Template

SOURCE = Path(__file__).resolve().parents[1]
FOLDER = Path(sys.argv[1] if sys.argv[1:] else "/var/tmp/keyfold-image").resolve()  # noqa: S108 - root's, and kept
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
PASSED = ("PIP_CERT", "PIP_DEFAULT_TIMEOUT", "PIP_INDEX_URL", "SSL_CERT_FILE", "http_proxy", "https_proxy", "no_proxy")
DEBIAN = "trixie"
PACKAGES = "ca-certificates,python-is-python3,python3-venv"

# What the image is for, as its user. Dagster's instance needs the database of compose.yaml: the definitions load without it.
CHECKS = """
test "$(id -u)" = 10001
for path in /app/dagster_project /opt/keyfold/bin /dagster/../etc; do ! test -w $path; done
test -w /dagster && test -w "$KEYFOLD_HOME"
keyfold simulate --stream weather --size 3 --to "$KEYFOLD_HOME/landing/weather"
keyfold ingest weather --settle 0
keyfold run moving_averages
python -c 'from dagster_project.definitions import defs; print(len(list(defs.resolve_all_asset_specs())), "assets load")'
"""


class Stage:
    """One `FROM` of the Dockerfile: a root of its own, and what is set in it."""

    def __init__(self, name: str) -> None:
        self.root = FOLDER / name
        shutil.rmtree(self.root, ignore_errors=True)
        run("cp", "--archive", "--reflink=auto", FOLDER / DEBIAN, self.root)
        for kind, place in (("--rbind", "/dev"), ("--rbind", "/proc")):
            run("mount", kind, place, f"{self.root}{place}")
        passed = {name: os.environ[name] for name in PASSED if name in os.environ}
        self.variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp", **passed}  # noqa: S108
        self.folder, self.user = "/", "0"

    def inside(self, path: str) -> str:
        """The path on this machine of one in the stage."""
        return f"{self.root}{os.path.join(self.folder, path)}"

    def run(self, command: str) -> None:
        """Run a command of a shell, as the stage's user."""
        who = f"--userspec={self.user}:{self.user}"
        shell = ["sh", "-ec", f"cd {self.folder}\n{command}"]
        run("chroot", who, self.root, *shell, env=self.variables)

    def copy(self, source: str, *paths: str) -> None:
        """Copy files and the content of folders to the last of the paths."""
        *sources, to = paths
        target = self.inside(to)
        Path(target if target.endswith("/") or len(sources) > 1 else target.rpartition("/")[0]).mkdir(
            parents=True, exist_ok=True
        )
        for one in sources:
            path = f"{source}/{one}"
            run("cp", "--archive", "--no-target-directory" if os.path.isdir(path) else "--verbose", path, target)


def run(*command: object, **how: object) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr, **how)  # type: ignore[arg-type]


def main() -> int:
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        print("image: needs root and debootstrap (on Debian: sudo apt-get install debootstrap)", file=sys.stderr)
        return 1
    if os.environ.get("KEYFOLD_IMAGE_MOUNTS") is None:
        # What is mounted ends with this process.
        environment = {**os.environ, "KEYFOLD_IMAGE_MOUNTS": "own"}
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, __file__, str(FOLDER)], environment)  # noqa: S606
    began = time.monotonic()
    base = FOLDER / DEBIAN
    if not (base / "complete").exists():
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir(parents=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", DEBIAN, base)
        (base / "complete").touch()
    shutil.copy(CERTIFICATES, f"{base}{CERTIFICATES}")
    shutil.copy("/etc/resolv.conf", base / "etc")
    stage = build()
    stage.run(CHECKS)
    size = subprocess.run(
        ["du", "--summarize", "--block-size=M", f"{stage.root}/opt/keyfold"], check=True, capture_output=True
    )
    print(f"image: all steps ran, in {time.monotonic() - began:.0f} s; installed: {size.stdout.split()[0].decode()}")
    return 0


def build() -> Stage:
    """Run the steps, and return the last stage."""
    text = (SOURCE / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)).splitlines()
    stages: dict[str, Stage] = {}
    stage = None
    for line in filter(None, lines):
        word, _, rest = line.partition(" ")
        print(f"image: {line[:110]}", file=sys.stderr)
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "image"
            stage = stages[name] = Stage(name)
            continue
        assert stage is not None  # noqa: S101 - a Dockerfile begins with FROM
        if word in ("ARG", "ENV"):
            for pair in shlex.split(Template(rest).substitute(stage.variables)):
                name, _, value = pair.partition("=")
                stage.variables[name] = value
        elif word == "RUN":
            stage.run(rest)
        elif word == "COPY":
            came, *paths = shlex.split(rest)
            is_from = came.startswith("--from=")
            stage.copy(str(stages[came[7:]].root) if is_from else str(SOURCE), *([] if is_from else [came]), *paths)
        elif word == "WORKDIR":
            stage.folder = rest
            Path(stage.inside("")).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            stage.user = rest
        elif word == "CMD":
            json.loads(rest)
        else:
            raise SystemExit(f"image: {word} is not known here")
    assert stage is not None  # noqa: S101
    return stage


if __name__ == "__main__":
    sys.exit(main())
