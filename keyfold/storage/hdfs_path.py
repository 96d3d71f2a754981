"""Files of HDFS as paths, by a client of its own in this process: no Java.

What every promise rests on: the NameNode does one thing after the other, and a rename without overwriting either takes a
name that nobody has, or fails. So a file is written aside, and renamed when it is whole.

HDFS writes nothing on a condition. A file that is to be replaced by who read it alone (`create_replaceable`) is therefore
a folder of versions beside its name, `NAME.versions/00000000000000000042`. The highest is the file, its number is the tag.
To replace it is to take the next number, which one of many does. The highest is never removed, so that numbers never go
back: who comes late, and takes a number that was used and removed, finds a higher one when he looks, and has failed.
"""

import io
import secrets
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, ClassVar, Self, cast
from urllib.parse import urlsplit

from hdfs_native import Client, FileStatus, WriteOptions

from keyfold.errors import KeyfoldError
from keyfold.storage.hdfs_client import HdfsReader, client_of, read_whole, told
from keyfold.storage.remote_path import READ_AHEAD, Check, ObjectStat, RemotePath

ASIDE = ".aside-"
"""How the names begin of what is not whole yet."""

_VERSIONS = ".versions"
_PIECE = 8 << 20
_FORGOTTEN_MS = 3_600_000


class HdfsPath(RemotePath):
    """A place in HDFS."""

    __slots__ = ()

    is_there_once_whole: ClassVar[bool] = False
    what_reaches_it: ClassVar[str] = (
        "The NameNode must run, its address must be right (a name service needs HADOOP_CONF_DIR), and the user "
        "(HADOOP_USER_NAME, or who runs this) must be allowed to write there"
    )

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme != "hdfs" or not parts.netloc or "@" in parts.netloc or parts.query or parts.fragment:
            raise KeyfoldError(
                f"{url} is no place in HDFS; write hdfs://HOST:PORT/FOLDER, or hdfs://NAMESERVICE/FOLDER"
            )
        super().__init__(f"hdfs://{parts.netloc}", parts.path.lstrip("/"))
        if ".." in self._key.parts:
            raise KeyfoldError(f"{url} goes up by ..; name the folder itself")

    @property
    def path(self) -> str:
        """Its path in the file system."""
        return f"/{self.key}"

    def read_bytes(self) -> bytes:
        try:
            return self._read()
        except FileNotFoundError:
            return self.read_with_tag()[0]

    def read_with_tag(self) -> tuple[bytes, str]:
        while True:
            newest = self._versions()[-1:]
            if not newest:
                raise FileNotFoundError(f"{self} is not there")
            # Gone again where two more came meanwhile.
            with suppress(FileNotFoundError):
                return newest[0]._read(), newest[0].name

    def write_bytes(self, content: bytes) -> int:
        aside = self._written_aside(content)
        with told(self), aside._or_gone():
            self._client.rename(aside.path, self.path, overwrite=True)
        return len(content)

    def write_from(self, file: IO[bytes]) -> None:
        """What breaks off leaves nothing, or a file that nobody looks for."""
        with told(self), self._or_gone(), self._client.create(self.path, _ANEW) as opened:
            while piece := file.read(_PIECE):
                opened.write(piece)

    def create(self, content: bytes) -> str:
        """Its tag is empty: it is not to be replaced."""
        aside = self._written_aside(content)
        with aside._or_gone():
            aside._rename_to(self)
        return ""

    def create_replaceable(self, content: bytes) -> str:
        # From a random number on: one that is removed and made anew does not pass for the one before.
        tag = f"{secrets.randbelow(10**9) * 10**9:020d}"
        folder = self.parent / f"{ASIDE}{uuid.uuid4().hex}"
        with folder._or_gone():
            (folder / tag)._write(content, for_file=self)
            folder._rename_to(self._folder)
        return tag

    def write_if_unchanged(self, content: bytes, tag: str) -> str:
        new = self._folder / f"{int(tag or 0) + 1:020d}"
        try:
            aside = new._written_aside(content, in_new_folder=False)
        except FileNotFoundError:
            raise FileExistsError(str(self)) from None
        try:
            with aside._or_gone():
                aside._rename_to(new)
        except FileExistsError:
            raise FileExistsError(str(self)) from None
        there = self._versions()
        names = [version.name for version in there]
        if names[-1] != new.name:
            # A number that was used before, so that what stands there never counted; or somebody has gone on from it already.
            raise FileExistsError(str(self))
        if tag not in names:
            # Of a file that was removed and made anew.
            new.unlink(missing_ok=True)
            raise FileExistsError(str(self))
        self._forget(there[:-2])
        return new.name

    def exists(self) -> bool:
        return self._found() is not None

    def is_file(self) -> bool:
        found = self._found()
        return found is not None and not found.isdir

    def is_dir(self) -> bool:
        found = self._found()
        return found is not None and found.isdir

    def stat(self) -> ObjectStat:
        found = self._found()
        if found is None:
            raise FileNotFoundError(f"{self} is not there")
        return _stat(found)

    def iterdir(self) -> Iterator[Self]:
        """What lies directly below it: files, and folders."""
        for found in self._listed():
            name = found.path.rpartition("/")[2]
            yield self / (name.removesuffix(_VERSIONS) if found.isdir else name)

    def below(self) -> Iterator[tuple[Self, ObjectStat]]:
        waiting = [self]
        while waiting:
            folder = waiting.pop()
            for found in folder._listed():
                path = folder / found.path.rpartition("/")[2]
                if not found.isdir:
                    yield path, _stat(found)
                elif not path.name.endswith(_VERSIONS):
                    waiting.append(path)
                else:
                    file = path.with_name(path.name.removesuffix(_VERSIONS))
                    with suppress(FileNotFoundError):
                        yield file, file.stat()

    def mkdir(self, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        if not exist_ok and self.exists():
            raise FileExistsError(str(self))
        with told(self):
            self._client.mkdirs(self.path, mode & 0o755, parents)

    def unlink(self, *, missing_ok: bool = False) -> None:
        with told(self):
            gone = self._client.delete(self.path) or self._client.delete(self._folder.path, recursive=True)
        if not gone and not missing_ok:
            raise FileNotFoundError(f"{self} is not there")

    def remove_tree(self) -> None:
        with told(self):
            self._client.delete(self.path, recursive=True)

    def sweep(self) -> None:
        for one in self._listed():
            if one.path.rpartition("/")[2].startswith(ASIDE):
                with told(self):
                    self._client.delete(one.path, recursive=True)

    def copy_to(self, other: RemotePath) -> None:
        """Through this process: HDFS copies nothing by itself."""
        to = cast(Self, other)
        if self._versions():
            to.create_replaceable(self.read_bytes())
            return
        with self.open_reader(_PIECE) as opened:
            to.write_from(opened)

    def move_tree_to(self, other: RemotePath, last: str, check: Check) -> None:
        """In one step, whatever comes last."""
        check()
        other.parent.mkdir(parents=True, exist_ok=True)
        self._rename_to(cast(Self, other))

    def move_file_to(self, other: RemotePath) -> None:
        """In one step."""
        to = cast(Self, other)
        to.parent.mkdir(parents=True, exist_ok=True)
        if self._versions():
            self._folder._rename_to(to._folder)
        else:
            self._rename_to(to)

    def open_reader(self, read_ahead: int = READ_AHEAD) -> IO[bytes]:
        return io.BufferedReader(HdfsReader(self._client, self.path, self), read_ahead)

    @property
    def _folder(self) -> Self:
        """Of its versions, where it is to be replaced."""
        return self._at(self._key.with_name(self.name + _VERSIONS))

    @property
    def _client(self) -> Client:
        return client_of(self._root)

    def _read(self) -> bytes:
        return read_whole(self._client, self.path, self)

    def _write(self, content: bytes, *, for_file: "HdfsPath", in_new_folder: bool = True) -> None:
        options = WriteOptions(overwrite=False, create_parent=in_new_folder)
        with told(for_file), self._client.create(self.path, options) as opened:
            if content:
                opened.write(content)

    def _written_aside(self, content: bytes, *, in_new_folder: bool = True) -> Self:
        """A file beside it that holds what it is to hold."""
        aside = self.with_name(f"{ASIDE}{uuid.uuid4().hex}")
        with aside._or_gone():
            aside._write(content, for_file=self, in_new_folder=in_new_folder)
        return aside

    @contextmanager
    def _or_gone(self) -> Iterator[None]:
        """Remove it where what is done with it fails."""
        try:
            yield
        except BaseException:
            with suppress(Exception):
                self._client.delete(self.path, recursive=True)
            raise

    def _rename_to(self, to: Self) -> None:
        """Give it a name that nobody has.

        Raises:
            FileExistsError: somebody has it; it may be this very one, where an answer was lost.
        """
        try:
            with told(to):
                self._client.rename(self.path, to.path)
        except FileNotFoundError:
            # Perhaps it was renamed, the answer was lost, and the client has asked again.
            if to.exists():
                raise FileExistsError(str(to)) from None
            raise

    def _versions(self) -> list[Self]:
        """Its versions, oldest first; none where it is no file that is replaced."""
        names = sorted(found.path.rpartition("/")[2] for found in self._folder._listed())
        return [self._folder / name for name in names if name.isdigit()]

    def _forget(self, old: list[Self]) -> None:
        """Remove versions that nobody needs, and what writers that were killed long ago had begun."""
        for version in old:
            version.unlink(missing_ok=True)
        found = self._folder._listed()
        newest = max((one.modification_time for one in found), default=0)
        for one in found:
            name = one.path.rpartition("/")[2]
            if name.startswith(ASIDE) and newest - one.modification_time > _FORGOTTEN_MS:
                (self._folder / name).unlink(missing_ok=True)

    def _listed(self) -> list[FileStatus]:
        """What a folder has; nothing where it is none, or goes meanwhile."""
        try:
            with told(self):
                found = list(self._client.list_status(self.path))
        except FileNotFoundError:
            return []
        return [one for one in found if one.path != self.path]

    def _found(self) -> FileStatus | None:
        """What the NameNode says of it, or of its newest version."""
        if (found := self._info()) is not None:
            return found
        while newest := self._versions()[-1:]:
            if (found := newest[0]._info()) is not None:
                return found
        return None

    def _info(self) -> FileStatus | None:
        try:
            with told(self):
                return self._client.get_file_info(self.path)
        except FileNotFoundError:
            return None


_ANEW = WriteOptions(overwrite=True, create_parent=True)


def _stat(found: FileStatus) -> ObjectStat:
    name = found.path.rpartition("/")[2]
    is_version = found.path.rpartition("/")[0].endswith(_VERSIONS)
    return ObjectStat(found.length, found.modification_time * 1_000_000, name if is_version else None)
