"""Makes the edits of a page: a diff whose hunks are found by their lines, as a reader finds them."""

import sys
from collections.abc import Sequence
from pathlib import Path


def apply(diff: str, root: Path) -> None:
    """Change the file that a diff names; each hunk's old lines must be there once."""
    head, *hunks = diff.split("\n@@\n")
    old, new = head.splitlines()
    file = root / new.removeprefix("+++ b/")
    assert old.removeprefix("--- a/") == new.removeprefix("+++ b/")
    text = file.read_text(encoding="utf-8")
    for hunk in hunks:
        lines = hunk.splitlines()
        before, after = _side(lines, "-"), _side(lines, "+")
        assert text.count(before) == 1, f"{file} has these lines {text.count(before)} times:\n{before}"
        text = text.replace(before, after)
    file.write_text(text, encoding="utf-8")


def _side(lines: Sequence[str], sign: str) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[:1] in (" ", sign))


if __name__ == "__main__":
    apply(Path(sys.argv[1]).read_text(encoding="utf-8"), Path.cwd())
