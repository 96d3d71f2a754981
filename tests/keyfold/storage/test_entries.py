"""Regular files alone are listed and opened, whatever else is in a folder, also if it takes a file's place in between."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from keyfold.storage.disk_path import DiskPath
from keyfold.storage.entries import ListedFile, NoRegularFileError, OtherEntry, folders_in, make_folders
from tests.entries import KINDS, make, removed_afterwards

ROWS = "rows\n"


@pytest.fixture
def folder(tmp_path: DiskPath) -> Iterator[Path]:
    (tmp_path / "outside").mkdir()
    with removed_afterwards(tmp_path / "folder") as folder:
        yield folder


def test_of_all_kinds_of_entries_files_alone_are_listed_and_the_others_are_named(folder: DiskPath, tmp_path: DiskPath):
    landed = {kind: path for kind in KINDS if (path := make(kind, folder, tmp_path / "outside", ROWS)) is not None}
    others: list[OtherEntry] = []
    files = {file.path for file in folder.files_below(others.append)}
    named = {entry.path for entry in others}
    for kind, path in landed.items():
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            assert (path in named, path in files) == (True, False), kind
        elif path.is_file():
            assert (path in named, path in files) == (False, True), kind
    assert folder.joinpath(*["d"] * 1200, "inner.ndjson") in files
    assert set(folders_in(folder)) >= {file.parent for file in files}
    # Of folders whose path is too long, the first one that cannot be listed is named; and a file that has one.
    assert [entry.what for entry in others if entry.may_hold_files] == ["cannot be read (File name too long)"] * 2


REPLACED: dict[str, Callable[[Path, Path], object]] = {
    "a pipe": lambda path, _: os.mkfifo(path),
    "a device": lambda path, _: os.mknod(path, 0o20666, os.makedev(1, 5)),
    "a folder": lambda path, _: path.mkdir(),
    "a link": lambda path, outside: path.symlink_to(outside / "secret"),
    "a link to itself": lambda path, _: path.symlink_to(path.name),
}


@pytest.mark.parametrize("kind", REPLACED)
def test_what_has_taken_a_file_s_place_is_not_opened(folder: DiskPath, tmp_path: DiskPath, kind: str):
    (tmp_path / "outside" / "secret").write_text("secret")
    (folder / "deep").mkdir()
    (folder / "deep" / "file").write_text(ROWS)
    (file,) = folder.files_below()
    (folder / "deep" / "file").unlink()
    REPLACED[kind](folder / "deep" / "file", tmp_path / "outside")
    with pytest.raises(NoRegularFileError):
        file.open()
    if kind != "a link":
        with pytest.raises(OSError, match=r"not a regular file|symbolic links"):
            (folder / "deep" / "file").open_for_reading()


def test_a_link_that_has_taken_the_place_of_a_folder_on_the_way_is_not_followed(folder: DiskPath, tmp_path: DiskPath):
    make_folders(folder / "a" / "b")
    for above in (folder / "a" / "b", tmp_path / "outside" / "b"):
        make_folders(above)
        (above / "file").write_text(ROWS)
    (file,) = folder.files_below()
    (folder / "a").rename(tmp_path / "moved")
    (folder / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(NoRegularFileError):
        file.open()
    # The folder itself may be one: its owner has made it.
    (tmp_path / "link").symlink_to(folder)
    (folder / "a").unlink()
    (tmp_path / "moved").rename(folder / "a")
    (file,) = (tmp_path / "link").files_below()
    with file.open() as opened:
        assert opened.read() == ROWS.encode()


def test_links_are_followed_as_long_as_they_lead_below_the_folder(folder: DiskPath, tmp_path: DiskPath):
    (tmp_path / "outside" / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(folder)
    make_folders(folder / "deep")
    (folder / "deep" / "file").write_text(ROWS)
    (folder / "folder").symlink_to("deep")
    (folder / "absolute").symlink_to(tmp_path / "link" / "folder" / "file")
    (folder / "deep" / "relative").symlink_to("../folder/file")
    for path in ("deep/file", "folder/file", "absolute", "deep/relative", "folder/relative"):
        for top in (folder, tmp_path / "link"):
            with (top / path).open_for_reading(within=top) as opened:
                assert opened.read() == ROWS.encode()
    (folder / "out").symlink_to(tmp_path / "outside" / "secret")
    (folder / "all").symlink_to(tmp_path / "outside")
    (folder / "circle").symlink_to("circle")
    (folder / "itself").symlink_to(".")
    for number in range(1500):
        (folder / f"{number}").symlink_to(f"{number + 1}")
    for path in ("out", "all/secret", "../outside/secret", "circle", "itself", "0"):
        with pytest.raises(NoRegularFileError):
            (folder / path).open_for_reading(within=folder)


def test_a_file_that_is_gone_is_called_so(folder: DiskPath):
    with pytest.raises(FileNotFoundError):
        ListedFile(folder, "gone/file", 0, 0).open()
    with pytest.raises(FileNotFoundError):
        (folder / "gone").open_for_reading()


def test_a_folder_that_may_not_be_listed_is_an_error_unless_others_are_asked_for(folder: DiskPath, monkeypatch):
    make_folders(folder / "closed")
    (folder / "file").touch()
    listed = os.scandir

    def scandir(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        list(folder.files_below())
    others: list[OtherEntry] = []
    assert [file.below for file in folder.files_below(others.append)] == ["file"]
    assert others == [OtherEntry(folder / "closed", "cannot be read (Permission denied)", may_hold_files=True)]
    with pytest.raises(PermissionError):
        list((folder / "closed").files_below(others.append))


def test_folders_are_made_as_deep_as_they_are_asked_for(folder: DiskPath):
    deep = folder.joinpath(*["d"] * 1500)
    make_folders(deep)
    make_folders(deep)
    assert deep.is_dir()
    (folder / "file").touch()
    with pytest.raises((FileExistsError, NotADirectoryError)):
        make_folders(folder / "file" / "below")
