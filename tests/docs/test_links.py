"""Links between pages, and to their headings, lead somewhere; pages and messages keep to their limits."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
    *sorted((REPOSITORY / "benchmarks").rglob("*.md")),
]
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def relative(path):
    return path.relative_to(REPOSITORY).as_posix()


def prose(page):
    """A page's text without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


def slug(heading):
    """A heading's anchor, as Python-Markdown makes it."""
    words = re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", heading)).strip().lower()
    return re.sub(r"[-\s]+", "-", words)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_lead_to_pages_and_headings(page):
    broken = []
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "://" in link:
            continue
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(link)
        elif DOCS in page.parents and DOCS not in target.parents:
            broken.append(f"{link} leads out of docs/, which the built site does not have")
    assert not broken


@pytest.mark.parametrize("page", [PAGES[0], *sorted((DOCS / "how-to").glob("*.md"))], ids=relative)
def test_the_readme_and_the_how_to_guides_have_at_most_100_lines(page):
    assert len(page.read_text(encoding="utf-8").splitlines()) <= 100


def test_no_two_headings_of_a_page_share_an_anchor():
    shared = []
    for page in PAGES:
        slugs = [slug(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)]
        shared += [(relative(page), one) for one in sorted(set(slugs)) if slugs.count(one) > 1]
    assert not shared


def test_every_page_is_linked_from_another_one():
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in LINK.findall(prose(page))
        if "://" not in link and link.partition("#")[0]
    }
    assert {page for page in PAGES if page != PAGES[0]} <= linked | {DOCS / "index.md"}
