"""The demo, as `make demo` runs it."""

import os
import subprocess
import sys
from pathlib import Path


def demo(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it in a process of its own, on a home and an instance of its own."""
    return subprocess.run(
        [sys.executable, "-m", "dagster_project.demo.run", *arguments],
        env={
            **os.environ,
            "KEYFOLD_HOME": str(home),
            "DAGSTER_HOME": str(home / "dagster"),
            "KEYFOLD_RUNNER": "spark",
            "KEYFOLD_SPARK_MASTER": "local[2]",
            "COLUMNS": "100",
        },
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )
