"""Landing folders: what is seen, and what counts as whole."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from spark_jobs.landing import LandedFile, look

SECOND = 1_000_000_000


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}\n")


def seen(folder: Path, **options: bool) -> list[str]:
    return [os.path.relpath(file.path, folder) for file in look(folder, **options).files]


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


def test_hidden_files_and_folders_are_not_seen_as_in_spark_s_file_source(tmp_path):
    put(tmp_path, ".a.tmp", "_b", "c.ndjson", "deep/d.ndjson", "_parts/e.ndjson", "_year=2026/f.ndjson", "g._COPYING_")
    assert seen(tmp_path) == ["_year=2026/f.ndjson", "c.ndjson", "deep/d.ndjson"]


def test_links_to_files_and_folders_are_followed_and_a_loop_ends(tmp_path):
    put(tmp_path, "elsewhere/a.ndjson", "landing/b.ndjson")
    landing = tmp_path / "landing"
    (landing / "linked").symlink_to(tmp_path / "elsewhere")
    (landing / "loop").symlink_to(landing)
    (landing / "dangling").symlink_to(tmp_path / "nowhere")
    assert seen(landing) == ["b.ndjson", "linked/a.ndjson"]


def test_a_missing_folder_or_a_file_in_its_place_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        look(tmp_path / "landing")
    (tmp_path / "landing").touch()
    with pytest.raises(NotADirectoryError):
        look(tmp_path / "landing")


def test_a_folder_that_may_not_be_read_is_told_and_hides_no_other(tmp_path):
    put(tmp_path, "landing/a.ndjson", "landing/closed/b.ndjson")
    landing = tmp_path / "landing"
    # Down to this one from the temporary folder, however many workers have folders of their own between.
    for folder in (tmp_path, *tmp_path.parents):
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(0o755)
    (landing / "closed").chmod(0)
    try:
        with as_nobody():
            found = look(landing)
            assert [file.path for file in found.files] == [str(landing / "a.ndjson")]
            assert found.unreadable == (str(landing / "closed"),)
            with pytest.raises(PermissionError):
                look(landing / "closed")
    finally:
        (landing / "closed").chmod(0o755)


def test_a_file_is_whole_once_it_has_stayed_as_it_is():
    file = LandedFile("a", 1, 100 * SECOND)
    assert not file.is_whole(104 * SECOND)
    assert file.is_whole(105 * SECOND)
    assert file.is_whole(100 * SECOND, timedelta(0))
    assert not file.is_whole(99 * SECOND, timedelta(0)), "the server's clock is ahead"


def test_a_done_marker_beside_a_file_or_for_its_folder_makes_it_whole_at_once(tmp_path):
    put(tmp_path, "a.csv", "a.csv.done", "b.csv", "day/c.csv", "day/_SUCCESS", "day/deeper/d.csv")
    now = time.time_ns()
    found = {os.path.basename(file.path): file for file in look(tmp_path, done_marker=True).files}
    assert {name: file.is_whole(now) for name, file in found.items()} == {
        "a.csv": True,
        "b.csv": False,
        "c.csv": True,
        "d.csv": False,
    }
    assert found["a.csv"].changed_at == os.stat(tmp_path / "a.csv.done").st_ctime_ns


def test_without_done_markers_a_name_that_ends_so_is_a_file_like_any_other(tmp_path):
    put(tmp_path, "a.csv.done")
    assert seen(tmp_path) == ["a.csv.done"]
    assert seen(tmp_path, done_marker=True) == []
