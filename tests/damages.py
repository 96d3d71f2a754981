"""What may become of a file, or of a folder: for tests that damage a lakehouse."""

import shutil
from collections.abc import Callable
from pathlib import Path


def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def cut_short(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def zero_some(path: Path) -> None:
    """Zero 16 bytes in the middle, or all of a smaller file: what a lost sector leaves."""
    content = bytearray(path.read_bytes())
    start = max(0, len(content) // 2 - 8)
    content[start : start + 16] = bytes(len(content[start : start + 16]))
    path.write_bytes(content)


WRONG_JSON = ("{}", "[]", "null", '{"version": "x"}', "[[1]]")


def put_wrong_json(text: str) -> Callable[[Path], None]:
    """Put JSON in place of a file's content that is another thing."""
    return write(text)


def flip(path: Path) -> None:
    """Change one bit in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def write(text: str) -> Callable[[Path], None]:
    """Put a text in place of a file's content."""

    def put(path: Path) -> None:
        path.write_text(text)

    return put


def restore(path: Path, backup: Path) -> None:
    """Put a file or a folder back as it was."""
    if path.exists():
        delete(path)
    shutil.copytree(backup, path) if backup.is_dir() else shutil.copyfile(backup, path)
