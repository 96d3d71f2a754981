"""Pictures that scripts draw are those in docs/images."""

from pathlib import Path
from runpy import run_path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]


def test_the_architecture_is_what_its_script_draws():
    script = run_path(str(ROOT / "scripts" / "docs_architecture.py"))
    drawn = script["draw"]()
    assert (ROOT / "docs" / "images" / "architecture.svg").read_text(encoding="utf-8") == drawn, (
        "make docs draws it anew"
    )
    boxes = ElementTree.fromstring(drawn).findall("{http://www.w3.org/2000/svg}rect")  # noqa: S314 - our own picture
    assert len(boxes) == 1 + len(script["BOXES"])
