"""HDFS' client: one a process, its trouble told as a disk's is, and files that are read whole or not at all."""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from hdfs_native import Client, FileReader

from keyfold.errors import KeyfoldError
from keyfold.storage.range_reader import RangeReader
from keyfold.storage.remote_path import StoreError

_LONGEST = 300
_OF_JAVA = re.compile(r'^RPCError\("[\w.$]+\.\w+", "')
_COMPLETE_WITHIN_SECONDS = 10.0


def client_of(root: str) -> Client:
    """The client of `hdfs://HOST:PORT` or of a name service, by the settings of HADOOP_CONF_DIR.

    Raises:
        KeyfoldError: no such name service.
    """
    return _client(root, os.getpid())


def opened_whole(client: Client, path: str, place: object) -> FileReader:
    """A file, open, and known to be whole.

    A NameNode may be set to close files whose last block is not on its disks yet, as it knows
    (dfs.namenode.file.close.num-committed-allowed). The client reads such a block as none: what is missing comes soon.

    Raises:
        FileNotFoundError: nothing is there.
        StoreError: it cannot be read, or is not whole in time.
    """
    late = time.monotonic() + _COMPLETE_WITHIN_SECONDS
    with told(place):
        while True:
            opened = client.read(path)
            length = client.get_file_info(path).length
            if len(opened) == length:
                return opened
            if time.monotonic() > late:
                raise OSError(f"only {len(opened)} of its {length} bytes are to be had, its last block is not complete")
            time.sleep(0.1)


def read_whole(client: Client, path: str, place: object) -> bytes:
    """All of a file.

    Raises:
        FileNotFoundError, StoreError: as `opened_whole`.
    """
    opened = opened_whole(client, path, place)
    with told(place):
        content = opened.read()
        if len(content) != len(opened):
            raise OSError(f"only {len(content)} of its {len(opened)} bytes were read")
    return content


class HdfsReader(RangeReader):
    """A file of HDFS, known to be whole."""

    def __init__(self, client: Client, path: str, place: object) -> None:
        self._place, self._opened = place, opened_whole(client, path, place)
        super().__init__(len(self._opened))

    def _range(self, start: int, end: int) -> bytes:
        with told(self._place):
            found = self._opened.read_range(start, end - start)
            if len(found) != end - start:
                raise OSError(f"{len(found)} of {end - start} bytes were read at {start}")
        return found


@contextmanager
def told(place: object) -> Iterator[None]:
    """Let what the client says of its trouble with a place out as what disks say: an OSError, in a line."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{place} is not there") from None
    except FileExistsError:
        raise FileExistsError(str(place)) from None
    except (StoreError, KeyfoldError):
        raise
    except (OSError, RuntimeError, ValueError) as error:
        # Something above it is a file.
        if "(is not a directory)" in str(error):
            raise FileNotFoundError(f"{place} is not there") from None
        failed = StoreError(f"HDFS did not do what was asked of it for {place}: {_line_of(error)}")
        failed.place = str(place)
        raise failed from None


def _line_of(error: Exception) -> str:
    """What the NameNode says of its trouble, without the stack of its Java."""
    said = str(error).replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"').split("\n\tat ")[0]
    return " ".join(_OF_JAVA.sub("", said).split())[:_LONGEST]


@cache
def _client(root: str, process: int) -> Client:
    """One a process: its threads do not survive a fork."""
    try:
        return Client(root)
    except (OSError, RuntimeError, ValueError) as error:
        raise KeyfoldError(
            f"{root} names no file system: {_line_of(error)}; write hdfs://HOST:PORT/FOLDER, or set HADOOP_CONF_DIR to the "
            "folder of the hdfs-site.xml that says which NameNodes the name service has"
        ) from None
