"""Where a warm Spark listens: a file that its user alone can read, there as long as its process is."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def read(address: Path) -> dict[str, Any] | None:
    """What the address file says, None where there is none or its process is gone."""
    try:
        found = json.loads(address.read_text(encoding="utf-8"))
        os.kill(found["pid"], 0)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return found


def write(address: Path, found: dict[str, Any]) -> None:
    """Write the file, whole, with mode 0600."""
    address.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=address.parent, prefix=f".{address.name}.")  # mode 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(temporary, address)
