"""A landing folder on HDFS: files show before they are whole there, and are known by what they hold."""

import time
from datetime import timedelta

from keyfold.ingestion.continuous import _ListingLook
from keyfold.ingestion.sources.files import fingerprint, is_as_admitted, list_files

SETTLE = timedelta(hours=1)


def test_a_file_waits_until_it_has_settled_and_one_that_is_marked_does_not(hdfs):
    folder = hdfs.new_folder()
    for name in ("a.ndjson", "b/c.ndjson", "b/c.ndjson.done", "d.ndjson._COPYING_", ".hidden"):
        (folder / name).write_bytes(b"")
    found = list_files(folder).files
    assert [file.path for file in found] == ["a.ndjson", "b/c.ndjson", "b/c.ndjson.done"]
    now = time.time_ns() + 10**9
    assert not any(file.is_whole(now, SETTLE) for file in found)
    assert all(file.is_whole(now + 3_600 * 10**9, SETTLE) for file in found)
    marked = list_files(folder, done_marker=True).files
    assert [file.is_whole(now, SETTLE) for file in marked] == [False, True]


def test_a_file_is_what_it_was_while_it_holds_the_same(hdfs):
    file = hdfs.new_folder() / "a.ndjson"
    file.write_bytes(b"one")
    listed, digest = list_files(file.parent).files[0], fingerprint(file)
    admitted = (listed.size, (listed.modified_at, listed.changed_at), digest)
    assert is_as_admitted(file, *admitted)
    time.sleep(0.01)
    file.write_bytes(b"one")
    assert is_as_admitted(file, *admitted)
    file.write_bytes(b"two")
    assert not is_as_admitted(file, *admitted)
    file.unlink()
    assert not is_as_admitted(file, *admitted)


def test_who_looks_on_and_on_looks_again_once_what_waits_may_be_whole(hdfs):
    folder = hdfs.new_folder()
    (folder / "a.ndjson").write_bytes(b"")
    look = _ListingLook(folder)
    assert look.shows_news()
    look.remember()
    look.remember_until(timedelta(0))
    assert not look.shows_news()
    time.sleep(1.1)
    assert look.shows_news()
    look.remember()
    assert not look.shows_news()
    (folder / "a.ndjson").write_bytes(b"")
    assert look.shows_news()
