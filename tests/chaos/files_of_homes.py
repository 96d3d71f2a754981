"""Which files of a home some run needs, and which damage to them a check has to see."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable

from keyfold.journal.sealed import unsealed

NEEDLESS = re.compile(r"(^|/)(\.lock|landing/.*|.*\.crc)$")
"""Locks hold nothing, and landing files that were read may go; files that land are `test_landing.py`'s."""


def files_of(home: Path) -> list[str]:
    """Files below a home, that some run may need."""
    names = sorted(path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file())
    return [name for name in names if not NEEDLESS.search(name)]


IS_SEALED = re.compile(r"/journal/\d+\.(plan|done)\.json$|/clock\.json$|^live\.json$|/state/manifests/")
"""What has a digest of its own."""


def is_left_to_the_store(name: str, damage: str) -> bool:
    """Whether a check need not see that the content of a file is another one: the disk or the bucket has to keep it as it was."""
    is_binary = name.endswith((".parquet", ".npy"))
    return not IS_SEALED.search(name) and ("flipped" in damage or (is_binary and "zero" in damage))


def needless(home: Path) -> Callable[[str, str], bool]:
    """Tells whether no run needs a file of a home that is damaged: data of no table, and what the next run writes again."""
    current = current_files(home)
    # Of `tables/` and `quarantine/`, which no job of these reads.
    commits = {max((table / "_delta_log").iterdir()).relative_to(home).as_posix() for table in home.glob("[tq]*/*")}

    def is_needless(name: str, damage: str) -> bool:
        is_data = name.endswith(".parquet") and ("/part-" in name or "/state/manifests/" in name)
        is_written_again = name in commits or name.endswith("/clock.json")
        return (is_data and name not in current) or (damage == "deleted" and is_written_again)

    return is_needless


def current_files(home: Path) -> set[str]:
    """The data files that tables consist of now, and the manifests of the batches that are kept."""
    logs = [path.parent for path in home.rglob("_delta_log")]
    kept = {
        (journal.parent / "state" / "manifests" / name).relative_to(home).as_posix()
        for journal in home.glob("jobs/*/generation-*/journal")
        for record in journal.glob("*.done.json")
        for name in json.loads(unsealed(record.read_bytes())[0]).get("manifests", {})
    }
    return kept | {
        (table / path).relative_to(home).as_posix()
        for table in logs
        for path in DeltaTable(str(table)).get_add_actions()["path"].to_pylist()
    }
