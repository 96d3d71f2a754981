"""A place in HDFS does what a path of a disk does, as far as a home relies on it, on a real NameNode and DataNode."""

import pickle
import threading
from pathlib import PurePosixPath

import pytest

from keyfold.errors import KeyfoldError
from keyfold.storage.hdfs_path import HdfsPath
from keyfold.storage.place import to_place


@pytest.fixture
def folder(hdfs):
    return hdfs.new_folder()


def all_at_once(work, count=6):
    """Call a function by number in as many threads at one moment; gives the numbers for which it did not find the file there."""
    won, barrier = [], threading.Barrier(count)

    def one(number):
        barrier.wait()
        try:
            work(number)
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def names(folder):
    return sorted(status.path.rpartition("/")[2] for status in folder._listed())


@pytest.mark.parametrize(
    "text", ["hdfs:///a", "hdfs://names/a/../b", "hdfs://", "hdfs://names/a?b", "hdfs://me@names/a"]
)
def test_what_names_no_place_in_hdfs_is_refused(text):
    with pytest.raises(KeyfoldError, match=r"hdfs://HOST:PORT/FOLDER|name the folder itself"):
        to_place(text)


def test_parts_of_a_place_are_those_of_a_path():
    place = to_place("hdfs://names:8020/home/jobs/x.plan.json")
    assert isinstance(place, HdfsPath)
    assert str(place) == "hdfs://names:8020/home/jobs/x.plan.json"
    assert (place.name, place.stem, place.suffix) == ("x.plan.json", "x.plan", ".json")
    assert [str(one) for one in place.parents] == [f"hdfs://names:8020{below}" for below in ("/home/jobs", "/home", "")]
    assert place.relative_to(HdfsPath("hdfs://names:8020/home")) == PurePosixPath("jobs/x.plan.json")
    assert not place.is_relative_to(HdfsPath("hdfs://others:8020/home"))
    assert pickle.loads(pickle.dumps(place)) == place  # noqa: S301 - made in this line


def test_what_is_written_is_found_as_on_a_disk(folder, tmp_path):
    written = {"a b/é.json": b"one", "a b/c/d=1+2": b"", "x%20y": b"three", "a b/c/[e]": bytes(100)}
    for name, content in written.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
        (folder / name).write_bytes(content)
    for path in [tmp_path, *tmp_path.rglob("*")]:
        place = folder / path.relative_to(tmp_path).as_posix() if path != tmp_path else folder
        assert (place.exists(), place.is_file(), place.is_dir()) == (True, path.is_file(), path.is_dir())
        for pattern in ("*", "[!a]*", "*/*"):
            expected = sorted(one.relative_to(tmp_path).as_posix() for one in path.glob(pattern))
            assert sorted(one.relative_to(folder).as_posix() for one in place.glob(pattern)) == expected
        if path.is_file():
            assert place.read_bytes() == path.read_bytes()
            assert place.stat().st_size == path.stat().st_size
    assert sorted((str(path.relative_to(folder)), found.st_size) for path, found in folder.below()) == sorted(
        (name, len(content)) for name, content in written.items()
    )
    (folder / "x%20y").write_bytes(b"again")
    assert (folder / "x%20y").read_bytes() == b"again"
    folder.remove_tree()
    assert not folder.exists()


def test_what_is_not_there_says_so_as_on_a_disk(folder):
    for read in (folder.read_bytes, folder.read_with_tag, folder.stat, folder.unlink, folder.open_reader):
        with pytest.raises(FileNotFoundError, match="is not there"):
            read()
    folder.unlink(missing_ok=True)
    folder.remove_tree()
    assert list(folder.iterdir()) == list(folder.below()) == []
    (folder / "file").write_bytes(b"")
    assert not (folder / "file" / "below").exists()
    assert list((folder / "file").iterdir()) == list(folder.glob("*/*")) == []
    (folder / "below").mkdir(parents=True)
    assert (folder / "below").is_dir()
    with pytest.raises(FileExistsError):
        (folder / "below").mkdir()


def test_of_many_that_create_a_file_one_has_and_nothing_else_is_left(folder):
    place = folder / "one"
    won = all_at_once(lambda number: place.create(b"%d" % number))
    assert [place.read_bytes()] == [b"%d" % number for number in won]
    assert names(folder) == ["one"]


def test_of_many_that_create_or_replace_what_is_to_be_replaced_one_does(folder):
    place = folder / "pointer"
    won = all_at_once(lambda number: place.create_replaceable(b"%d" % number))
    found, tag = place.read_with_tag()
    assert [found] == [b"%d" % number for number in won]
    won = all_at_once(lambda number: place.write_if_unchanged(b"new %d" % number, tag))
    assert [place.read_bytes()] == [b"new %d" % number for number in won]
    assert [path.name for path in folder.iterdir()] == ["pointer"]
    assert place.is_file()
    assert not place.is_dir()


def test_who_was_away_for_many_replacements_replaces_nothing(folder):
    place = folder / "pointer"
    tags = [place.create_replaceable(b"0")]
    for number in range(1, 5):
        tags.append(place.write_if_unchanged(b"%d" % number, tags[-1]))
    # The numbers that followed upon these are used, and some of them removed since.
    assert names(place._folder) == tags[-2:]
    for tag in tags[:-1]:
        with pytest.raises(FileExistsError):
            place.write_if_unchanged(b"late", tag)
        assert place.read_with_tag() == (b"4", tags[-1])
        assert place.stat().e_tag == tags[-1]
    tags.append(place.write_if_unchanged(b"5", tags[-1]))
    assert names(place._folder) == tags[-2:]


def test_what_was_removed_and_made_anew_is_not_replaced_by_who_knows_the_one_before(folder):
    place = folder / "pointer"
    tag = place.create_replaceable(b"before")
    place.unlink()
    with pytest.raises(FileExistsError):
        place.write_if_unchanged(b"late", tag)
    new = place.create_replaceable(b"anew")
    assert new != tag
    with pytest.raises(FileExistsError):
        place.write_if_unchanged(b"late", tag)
    assert new in names(place._folder)


def test_who_reads_while_it_is_replaced_finds_what_was_there_at_some_time_and_never_less_new(folder):
    place, seen, over = folder / "pointer", [], threading.Event()
    tag = place.create_replaceable(b"0")

    def read():
        while not over.is_set():
            seen.append(int(place.read_with_tag()[0]))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 8):
        tag = place.write_if_unchanged(b"%d" % number, tag)
    over.set()
    reader.join()
    assert seen == sorted(seen)
    assert len(seen) > 3


def test_files_and_folders_move_in_one_step_and_only_to_where_nothing_is(folder):
    (folder / "from" / "a").write_bytes(b"a")
    tag = (folder / "from" / "pointer").create_replaceable(b"p")
    (folder / "from").move_tree_to(folder / "deep" / "to", "a", lambda: None)
    to = folder / "deep" / "to"
    assert not (folder / "from").exists()
    assert (to / "pointer").read_with_tag() == (b"p", tag)
    (to / "pointer").move_file_to(folder / "elsewhere" / "pointer")
    (to / "a").move_file_to(folder / "elsewhere" / "a")
    assert (folder / "elsewhere" / "pointer").read_with_tag() == (b"p", tag)
    (folder / "b").write_bytes(b"b")
    with pytest.raises(FileExistsError):
        (folder / "b").move_file_to(folder / "elsewhere" / "a")
    assert (folder / "b").read_bytes() == b"b"
    (folder / "elsewhere" / "pointer").copy_to(folder / "copy")
    (folder / "b").copy_to(folder / "c")
    assert ((folder / "copy").read_with_tag()[0], (folder / "c").read_bytes()) == (b"p", b"b")


def test_what_killed_writers_left_is_swept_and_counts_for_nothing(folder):
    tag = (folder / "pointer").create_replaceable(b"p")
    (folder / ".aside-0").write_bytes(b"")
    (folder / ".aside-1" / "0").write_bytes(b"")
    ((folder / "pointer")._folder / ".aside-2").write_bytes(b"")
    assert (folder / "pointer").read_with_tag() == (b"p", tag)
    folder.sweep()
    assert names(folder) == ["pointer.versions"]
