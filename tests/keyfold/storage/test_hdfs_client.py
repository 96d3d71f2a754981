"""HDFS' client reads files whole, and tells its trouble in a line, on a real NameNode and DataNode."""

import os

import pytest

from keyfold.errors import KeyfoldError
from keyfold.storage import hdfs_client
from keyfold.storage.hdfs_path import HdfsPath
from keyfold.storage.remote_path import StoreError


@pytest.fixture
def folder(hdfs):
    return hdfs.new_folder()


def test_a_reader_seeks_as_a_file_does(folder, tmp_path):
    content = bytes(range(256)) * 1000
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb") as file:
        (folder / "file").write_from(file)
    with (folder / "file").open_reader() as file:
        file.seek(-300, 2)
        assert file.read(10) == content[-300:-290]
        file.seek(100_000)
        assert file.read() == content[100_000:]


def test_a_file_whose_last_block_is_not_complete_is_waited_for_and_never_read_short(folder, monkeypatch):
    (folder / "file").write_bytes(b"whole")
    (folder / "empty").write_bytes(b"")
    client = hdfs_client.client_of(folder._root)

    class Early:
        """The client as it is where the NameNode closes files before their last block is complete."""

        left = 3

        def __getattr__(self, name):
            return getattr(client, name)

        def read(self, path):
            self.left -= 1
            return client.read(path if self.left < 0 else (folder / "empty").path)

    early = Early()
    monkeypatch.setattr(hdfs_client, "_client", lambda root, process: early)
    assert (folder / "file").read_bytes() == b"whole"
    early.left = 1_000_000
    monkeypatch.setattr(hdfs_client, "_COMPLETE_WITHIN_SECONDS", 0.3)
    for read in ((folder / "file").read_bytes, (folder / "file").open_reader):
        with pytest.raises(StoreError, match="only 0 of its 5 bytes are to be had"):
            read()


def test_a_process_that_is_forked_has_a_client_of_its_own(folder):
    (folder / "file").write_bytes(b"")
    pid = os.fork()
    if pid == 0:
        os._exit(0 if (folder / "file").exists() else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_what_hdfs_refuses_is_told_in_a_line_and_names_the_place(folder, hdfs, monkeypatch):
    folder.mkdir(parents=True)
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    hdfs_client._client.cache_clear()
    try:
        with pytest.raises(StoreError, match=r"for hdfs://.*/file: Permission denied: user=somebody") as refused:
            (folder / "file").create(b"")
    finally:
        hdfs_client._client.cache_clear()
    assert "\n" not in str(refused.value)
    assert refused.value.place == str(folder / "file")


def test_a_name_service_that_nothing_names_is_told_with_what_to_set():
    with pytest.raises(KeyfoldError, match=r"hdfs://nobody names no file system: .*HADOOP_CONF_DIR"):
        HdfsPath("hdfs://nobody/home").exists()
