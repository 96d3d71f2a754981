"""The public modules, and what pages, templates and the data product import of Keyfold."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]

PUBLIC = (
    "keyfold",
    "keyfold.cli",
    "keyfold.dagster",
    "keyfold.dagster.components",
    "keyfold.dagster.plots",
    "keyfold.dagster.quality.asset_checks",
    "keyfold.operators",
    "keyfold.operators.steps",
    "keyfold.suite",
    "keyfold.testing",
    "keyfold.times",
)
BY_AUTHORS = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "keyfold" / "cli" / "new" / "templates").rglob("*.jinja")),
    *(
        file
        for folder in ("spark_jobs", "assets", "expectations")
        for file in sorted((REPOSITORY / folder).rglob("*.py"))
    ),
]
"""What authors of streams and jobs read, begin with, and write."""

_BLOCK = re.compile(r"^```python.*?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(
    r"^\s*(?:>>> )?(?:from (keyfold[\w.]*) import (\([^)]*\)|.*)|import (keyfold[\w.]*))", re.MULTILINE
)


def imports(file: Path) -> list[tuple[str, str]]:
    """Return what a file imports of Keyfold: modules, and the name; empty for a module itself."""
    text = file.read_text(encoding="utf-8")
    code = "\n".join(_BLOCK.findall(text)) if file.suffix == ".md" else text
    found = []
    for module, names, itself in _IMPORT.findall(code):
        # Names of a template are filled in where it is used.
        words = re.findall(r"\w+(?: as \w+)?", re.sub(r"\{\{.*?\}\}", "", names))
        found += [(module, word.partition(" ")[0]) for word in words] or [(module or itself, "")]
    return found
