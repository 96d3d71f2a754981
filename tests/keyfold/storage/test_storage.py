"""Disks and buckets behind one protocol: nothing outside of `keyfold.storage` asks which of the two a place is."""

import ast
from pathlib import Path
from typing import Any

import pytest

import keyfold
from keyfold.storage.bucket import Bucket
from keyfold.storage.disk import Disk
from keyfold.storage.place import to_place
from keyfold.storage.storage import Storage, storage_of

PACKAGE = Path(keyfold.__file__).parent
KINDS = {"Path", "PosixPath", "RemotePath", "ObjectPath", "Disk", "Bucket"}


def asks_for_its_kind(node: Any) -> bool:
    """Whether code asks a value whether it is a place of one kind: by isinstance, or by a pattern."""
    if isinstance(node, ast.MatchClass):
        asked = node.cls
    elif (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass")
    ):
        asked = node.args[1]
    else:
        return False
    names = {one.id if isinstance(one, ast.Name) else getattr(one, "attr", "") for one in ast.walk(asked)}
    return bool(names & KINDS)


def test_nothing_outside_of_storage_asks_which_kind_a_place_is():
    asked = [
        f"{file.relative_to(PACKAGE)}: {ast.unparse(node)}"
        for file in PACKAGE.rglob("*.py")
        if not file.is_relative_to(PACKAGE / "storage")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if asks_for_its_kind(node)
    ]
    assert asked == []


@pytest.mark.parametrize(
    "code", ["isinstance(a, Path)", "isinstance(a, str | ObjectPath)", "match a:\n    case Path(): pass"]
)
def test_that_is_seen_in_all_its_forms(code):
    assert any(map(asks_for_its_kind, ast.walk(ast.parse(code))))


def test_a_place_has_its_storage(tmp_path):
    kinds: list[Storage] = [storage_of(tmp_path), storage_of(to_place("s3a://lake/home"))]
    assert [type(kind) for kind in kinds] == [Disk, Bucket]
