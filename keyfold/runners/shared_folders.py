"""Check that tasks on other machines see a folder of this process, and this process what they write there.

Without this check, failures show late and misleadingly: landing files that seem to be missing, batches without files.
"""

import uuid
from collections.abc import Callable
from itertools import islice

from keyfold.errors import Misconfigured
from keyfold.storage.place import Place

Look = Callable[[int], tuple[str, str, str]]
"""What a task does: returns its node, what is wrong there, and the name of the file that it wrote."""


def check_folder(folder: Place, on_nodes: Callable[[Look], list[tuple[str, str, str]]], *, writable: bool) -> None:
    """Check that all nodes see a folder at the same path.

    Args:
        folder: the folder that this process and the tasks read.
        on_nodes: calls a function in tasks on all nodes.
        writable: whether all must write to it too.

    Raises:
        KeyfoldError: a node does not see this process's files, may not write, or writes files that this process does not see.
    """
    if not writable:
        _check_each(folder, on_nodes(_lister(folder, [path.name for path in islice(folder.iterdir(), 3)])))
        return
    token = f".shared-{uuid.uuid4().hex}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / token).write_text(token, encoding="utf-8")
        for node, written in _check_each(folder, on_nodes(_writer(folder, token))):
            if not (folder / written).is_file():
                raise Misconfigured(
                    f"node {node} has another {folder}: this driver does not see the files that it writes there; mount one "
                    "file system at that path on all nodes"
                )
    finally:
        for file in folder.glob(f"{token}*"):
            file.unlink(missing_ok=True)


def _check_each(folder: Place, looks: list[tuple[str, str, str]]) -> list[tuple[str, str]]:
    if wrong := sorted({f"node {node}: {fault}" for node, fault, _ in looks if fault}):
        raise Misconfigured(
            f"{folder} is not shared with Spark's workers ({'; '.join(wrong)}); mount one file system at that path on all "
            "nodes, where the executors' user may read and write this user's files; if it is in a bucket, let every node "
            "reach the store"
        )
    return [(node, written) for node, _, written in looks]


def _writer(folder: Place, token: str) -> Look:
    def look(_: int) -> tuple[str, str, str]:
        import socket  # noqa: PLC0415 - pickled whole: it runs in a worker

        node, own = socket.gethostname(), f"{token}-{uuid.uuid4().hex}"
        try:
            if (folder / token).read_text(encoding="utf-8") != token:
                raise OSError("another file")  # noqa: TRY301 - reported as any other fault
            (folder / own).write_text("", encoding="utf-8")
        except OSError as error:
            return node, f"{error.strerror or error}", ""
        return node, "", own

    return look


def _lister(folder: Place, names: list[str]) -> Look:
    def look(_: int) -> tuple[str, str, str]:
        import socket  # noqa: PLC0415 - pickled whole: it runs in a worker

        gone = [name for name in names if not (folder / name).exists()]
        fault = "" if folder.is_dir() and not gone else f"no {gone[0] if gone else 'such folder'} there"
        return socket.gethostname(), fault, ""

    return look
