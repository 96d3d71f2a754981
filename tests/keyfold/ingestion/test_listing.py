"""Landing folders: what is seen, and what counts as whole."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from keyfold.ingestion.admission import Admission, select_files
from keyfold.ingestion.known import KnownFile
from keyfold.ingestion.listing import list_files, refusal
from keyfold.storage.disk_path import DiskPath
from keyfold.storage.entries import folders_in
from keyfold.storage.place import to_place
from tests.entries import make, removed_afterwards


def put(folder: DiskPath, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}\n")


def seen(folder: DiskPath, *, done_marker: bool = False) -> list[str]:
    return [file.path for file in list_files(folder, done_marker=done_marker).files if file.refused is None]


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, whom no mode keeps out."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def open_to_all(landing: DiskPath) -> None:
    """Let others read a folder whatever the umask is: another test of this process may have made it that of Dagster's definitions."""
    for path in landing.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    # Down to this one from the temporary folder, however many workers have folders of their own between.
    for folder in (landing, *landing.parents):
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(0o755)


def test_hidden_files_and_folders_are_not_seen_as_in_spark_s_file_source(tmp_path):
    put(tmp_path, ".a.tmp", "_b", "c.ndjson", "deep/d.ndjson", "_parts/e.ndjson", "_year=2026/f.ndjson", "g._COPYING_")
    assert seen(tmp_path) == ["_year=2026/f.ndjson", "c.ndjson", "deep/d.ndjson"]


def test_links_within_the_folder_show_each_file_where_it_is_and_a_loop_ends(tmp_path):
    put(tmp_path, "landing/b.ndjson", "landing/deep/c.ndjson")
    landing = tmp_path / "landing"
    (landing / "also b.ndjson").symlink_to(landing / "b.ndjson")
    (landing / "also deep").symlink_to(landing / "deep")
    (landing / "loop").symlink_to(landing)
    (landing / "dangling").symlink_to(tmp_path / "nowhere")
    assert seen(landing) == ["also b.ndjson", "b.ndjson", "deep/c.ndjson"]


def test_links_that_lead_out_of_the_folder_are_refused_and_not_followed(tmp_path):
    put(tmp_path, "elsewhere/a.ndjson", "landing-2/x.ndjson", "landing/b.ndjson")
    landing = tmp_path / "landing"
    (landing / "folder").symlink_to(tmp_path / "elsewhere")
    (landing / "file.ndjson").symlink_to(tmp_path / "landing-2" / "x.ndjson")
    refused = {file.path: file.refused for file in list_files(to_place(landing)).files if file.refused}
    assert refused == {
        "folder": f"the link leads out of the landing folder, to {tmp_path / 'elsewhere'}",
        "file.ndjson": f"the link leads out of the landing folder, to {tmp_path / 'landing-2' / 'x.ndjson'}",
    }
    assert seen(landing) == ["b.ndjson"]
    assert refusal(landing, "folder/a.ndjson") == f"{refused['folder']}/a.ndjson"
    assert refusal(landing, "b.ndjson") is None


def test_pipes_are_not_read_and_keep_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.ndjson")
    assert seen(tmp_path) == []
    with pytest.raises(OSError, match="not a regular file"):
        (tmp_path / "pipe.ndjson").fingerprint(tmp_path)


def test_a_fingerprint_covers_the_whole_file(tmp_path):
    file, content = tmp_path / "a", bytes(9_000_000)
    found = set()
    for at in (None, 0, 65_535, 150_000, 4 << 20, 8_999_999):
        changed = bytearray(content)
        if at is not None:
            changed[at] = 1
        file.write_bytes(changed)
        found.add(file.fingerprint(tmp_path))
    assert len(found) == 6
    file.write_bytes(content + bytes(1))
    assert file.fingerprint(tmp_path) not in found


def test_a_name_that_is_not_utf_8_is_refused_under_a_path_that_no_other_file_has(tmp_path):
    for name in (b"caf\xe9.csv", rb"caf\xe9.csv", b"fine.csv"):
        (tmp_path / os.fsdecode(name)).touch()
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    (tmp_path / os.fsdecode(b"\xff") / "inside.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path.parent / os.fsdecode(b"\xfe"))
    (tmp_path.parent / os.fsdecode(b"\xfe")).touch()
    found = {file.path: file.refused for file in list_files(tmp_path).files}
    assert sorted(path for path, refused in found.items() if refused) == [
        r"\xff/inside.csv/",
        r"caf\xe9.csv/",
        "link.csv",
    ]
    assert sorted(path for path, refused in found.items() if not refused) == [r"caf\xe9.csv", "fine.csv"]
    assert "".join(filter(None, found.values())).isprintable()


def test_a_missing_folder_or_a_file_in_its_place_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        list_files(tmp_path / "landing")
    (tmp_path / "landing").touch()
    with pytest.raises(NotADirectoryError):
        list_files(tmp_path / "landing")


def test_a_folder_that_may_not_be_read_is_told_and_hides_no_other(tmp_path):
    put(tmp_path, "landing/a.ndjson", "landing/closed/b.ndjson")
    landing = tmp_path / "landing"
    open_to_all(landing)
    (landing / "closed").chmod(0)
    try:
        with as_nobody():
            found = list_files(to_place(landing))
            assert [file.path for file in found.files] == ["a.ndjson"]
            assert found.unreadable == {"closed": "Permission denied"}
            with pytest.raises(PermissionError):
                list_files(landing / "closed")
    finally:
        (landing / "closed").chmod(0o755)


@pytest.mark.parametrize("looks_open", [False, True], ids=["by its mode", "by the file server alone"])
def test_a_file_that_may_not_be_read_waits_and_is_read_once_it_may_be(tmp_path, monkeypatch, looks_open: bool):
    put(tmp_path, "landing/a.ndjson", "landing/closed.ndjson", "landing/deep/closed.ndjson")
    landing = tmp_path / "landing"
    closed = [landing / "closed.ndjson", landing / "deep" / "closed.ndjson"]
    (landing / "link.ndjson").symlink_to("closed.ndjson")
    open_to_all(landing)
    if looks_open:
        monkeypatch.setattr(os, "access", lambda *_, **__: True)

    def look() -> Admission:
        with as_nobody():
            nothing = pl.DataFrame(schema={"path": pl.String} | KnownFile.__annotations__)
            return select_files(landing, nothing, settle=timedelta(0), done_marker=False, reread_changed=False)

    for path in closed:
        path.chmod(0)
    admission = look()
    assert [file.path for file in admission.files] == ["a.ndjson"]
    assert admission.unreadable == dict.fromkeys(
        ["closed.ndjson", "deep/closed.ndjson", "link.ndjson"], "Permission denied"
    )
    assert admission.waiting == 3
    if not looks_open:  # who only lists names it too: the sensor, `health`, `check`
        with as_nobody():
            assert list_files(to_place(landing)).unreadable == admission.unreadable
    for path in closed:
        path.chmod(0o644)
    admission = look()
    assert [file.path for file in admission.files] == ["a.ndjson", "closed.ndjson", "deep/closed.ndjson", "link.ndjson"]
    assert (admission.unreadable, admission.waiting) == ({}, 0)


def test_a_file_that_is_removed_while_the_folder_is_listed_is_not_called_unreadable(tmp_path, monkeypatch):
    put(tmp_path, "a.ndjson")
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, *more, **ids: os.unlink(path) or access(path, *more, **ids))
    assert list_files(tmp_path).unreadable == {}


def test_a_file_whose_path_is_too_long_is_told_and_hides_no_other_in_its_folder(tmp_path):
    with removed_afterwards(tmp_path / "landing") as landing:
        make("a file whose path is too long", landing, tmp_path, "{}\n")
        *_, deepest = folders_in(landing)
        (deepest / "short.ndjson").touch()
        found = list_files(to_place(landing))
        assert [os.path.basename(file.path) for file in found.files] == ["short.ndjson"]
        assert list(found.unreadable.values()) == ["File name too long"]
        assert [os.path.basename(path) for path in found.unreadable] == ["n" * 240 + ".ndjson"]


def test_a_done_marker_beside_a_file_or_for_its_folder_makes_it_whole_at_once(tmp_path):
    put(tmp_path, "a.csv", "a.csv.done", "b.csv", "day/c.csv", "day/_SUCCESS", "day/deeper/d.csv")
    now = time.time_ns()
    found = {os.path.basename(file.path): file for file in list_files(tmp_path, done_marker=True).files}
    assert {name: file.is_whole(now) for name, file in found.items()} == {
        "a.csv": True,
        "b.csv": False,
        "c.csv": True,
        "d.csv": False,
    }
    assert found["a.csv"].changed_at == os.stat(tmp_path / "a.csv.done").st_ctime_ns
