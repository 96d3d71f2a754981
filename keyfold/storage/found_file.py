"""`FoundFile`: a file from a listing."""

from typing import NamedTuple

from keyfold.storage.place import Place


class FoundFile(NamedTuple):
    """A file below a folder.

    Attributes:
        folder: the listed folder, or the file itself.
        below: the path below the folder; empty for the file itself.
        bytes: its size.
        changed_at: time of its last change, in nanoseconds since 1970.
        is_shared: whether it has more than one hard link; always False in a store.
        tag: the store's tag (ETag) of its content; empty on a disk.
    """

    folder: Place
    below: str
    bytes: int
    changed_at: int
    is_shared: bool = False
    tag: str = ""

    @property
    def path(self) -> Place:
        """The file's path, made on demand, since there may be thousands of files."""
        return self.folder / self.below if self.below else self.folder
