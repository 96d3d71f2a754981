"""The pages are built without a warning, load nothing from another host, and show every public name with its docstring."""

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import keyfold
from keyfold import errors
from tests.public_names import BY_AUTHORS, PUBLIC, imports

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^\"'\s>]+", re.IGNORECASE)


def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))  # and the one for addresses that are not there
    assert [(page.name, LOADED.findall(page.read_text(encoding="utf-8"))) for page in pages if loads(page)] == []
    shown = set(re.findall(r'id="([\w.]+)"', (tmp_path / "reference" / "api.html").read_text(encoding="utf-8")))
    public = {f"{name}.{one}" for name in PUBLIC for one in getattr(import_module(name), "__all__", ())}
    public |= {f"{module}.{name}" for file in BY_AUTHORS for module, name in imports(file) if name}
    by_errors = {f"keyfold.{name}": f"keyfold.errors.{name}" for name in keyfold.__all__ if hasattr(errors, name)}
    assert {by_errors.get(name, name) for name in public} - shown == set()


def loads(page):
    return LOADED.search(page.read_text(encoding="utf-8"))
