"""Where a warm Spark listens: a file that its user alone can read, there as long as its process is."""

import json
import os
from pathlib import Path
from typing import Any

from spark_jobs.lakehouse.files import write_whole


def read(address: Path) -> dict[str, Any] | None:
    """What the address file says, None where there is none or its process is gone."""
    try:
        found = json.loads(address.read_text(encoding="utf-8"))
        os.kill(found["pid"], 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return found


def write(address: Path, found: dict[str, Any]) -> None:
    """Write the file, whole, with mode 0600: what is written aside first is its user's alone."""
    write_whole(address, json.dumps(found).encode())
