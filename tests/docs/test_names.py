"""Files, modules, make targets and commands that the pages and docstrings name are there."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from keyfold.cli.app import commands, load
from tests.public_names import BY_AUTHORS, PUBLIC, imports

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    *sorted((REPOSITORY / "benchmarks").rglob("*.md")),
]
TUTORIAL = REPOSITORY / "docs" / "tutorial" / "own-stream-and-job.md"
FOLDERS = (
    "keyfold",
    "spark_jobs",
    "assets",
    "expectations",
    "dagster_project",
    "benchmarks",
    "tests",
    "scripts",
    "docs",
    "deploy",
    ".ci",
)
PACKAGES = sorted(path.name for path in (REPOSITORY / "keyfold").iterdir() if path.is_dir())
SOURCES = [path for room in FOLDERS[:6] for path in sorted((REPOSITORY / room).rglob("*.py"))]
PATH = re.compile(rf"(?<![\w/.<-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)(?![\w<…*{{])")
IS_METADATA = re.compile(rf"keyfold/(?!(?:{'|'.join(PACKAGES)})/|\w+\.py$)")
"""Keys of metadata and tags in Dagster look like paths."""
INSIDE = re.compile(rf"(?<![\w/.<-])((?:{'|'.join(PACKAGES)})/[\w/]+\.py)")
MODULE = re.compile(rf"(?<![\w./-])((?:{'|'.join(FOLDERS[:7])})(?:\.\w+)+)")


def relative(path):
    return path.relative_to(REPOSITORY).as_posix()


def test_files_that_are_named_are_there():
    gone = []
    for page in (*PAGES, *SOURCES):
        text = page.read_text(encoding="utf-8")
        named = {found.rstrip(".") for found in PATH.findall(text) if not IS_METADATA.match(found)}
        # What a reader is told to write is not there yet; a page says so by NAME or <name>, or by the word "your".
        gone += [
            (relative(page), name)
            for name in sorted(named)
            if not (REPOSITORY / name).exists() and not is_for_the_reader(page, name)
        ]
        gone += [(relative(page), name) for name in INSIDE.findall(text) if not is_inside(name)]
    assert not gone


def is_inside(name):
    return any(
        (REPOSITORY / room / name).exists() for room in ("keyfold", "spark_jobs", "dagster_project", "tests/keyfold")
    )


def test_the_engine_page_says_what_each_module_of_the_engine_does():
    page = (REPOSITORY / "docs" / "explanation" / "engine.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| package of `keyed/` |")
    named, package = set(), ""
    for row in table.splitlines()[2:]:
        if not row.startswith("|"):
            break
        _, first, modules, *_ = row.split("|")
        package = first.strip(" `") or package
        named |= {(package, module) for module in re.findall(r"`(\w+)`", modules)} or {(package, "")}
    # The modules of parts have a page of their own.
    there = {(path.parent.name, path.stem) for path in (REPOSITORY / "keyfold" / "keyed").glob("*/*.py")}
    assert named == {one for one in there if one[0] != "state_parts" and one[1] != "__init__"} | {("state_parts", "")}


def is_for_the_reader(page, name):
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if name in line]
    return all("NAME" in line or "your" in line.lower() for line in lines) or page == TUTORIAL


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_modules_that_are_named_are_there(page):
    gone = []
    for name in sorted(set(MODULE.findall(page.read_text(encoding="utf-8")))):
        parts = name.split(".")
        # The last word may be something that a module has, or a file's ending.
        if not any(spec_of(".".join(parts[:length])) for length in (len(parts), len(parts) - 1)):
            gone.append(name)
    assert not gone or page == TUTORIAL


def spec_of(name):
    try:
        return find_spec(name)
    except ModuleNotFoundError:
        return None


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_make_targets_and_commands_that_are_named_are_there(page):
    text = page.read_text(encoding="utf-8")
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)) <= targets
    assert set(re.findall(r"(?:`|^)(?:\.venv/bin/)?keyfold ([a-z][\w-]*)", text, re.MULTILINE)) <= set(commands())


@pytest.mark.parametrize("file", BY_AUTHORS, ids=relative)
def test_what_authors_read_and_write_imports_public_modules_alone(file):
    assert {module for module, _ in imports(file)} <= set(PUBLIC)


WHERE_COMMANDS_STAND = re.compile(r"`(keyfold [^`\n]*)`|^(?:[\w.]+/bin/)?(keyfold .*(?:\\\n.*)*)", re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if "benchmarks" not in page.parts], ids=relative)
def test_options_that_are_named_with_a_command_are_its_own(page):
    unknown = [
        f"{option} of keyfold {name}"
        for name, line in shown_commands(page.read_text(encoding="utf-8"))
        for option in re.findall(r"(?<=[\s\[(])(--[a-z][a-z-]+)", line)
        if option not in options_of(name)
    ]
    assert not unknown


def shown_commands(text):
    """Each command with all that follows it up to the next one, by the command's name: `state read`."""
    for quoted, whole in WHERE_COMMANDS_STAND.findall(text):
        for line in re.split(r"&&|;|\|\s", (quoted or whole).split(" #")[0]):
            words = line.split()
            if words[:1] == ["keyfold"] and len(words) > 1 and words[1] in commands():
                is_group = hasattr(load(words[1]), "commands")
                yield " ".join(words[1 : 3 if is_group else 2]), line


def options_of(name):
    first, _, inner = name.partition(" ")
    command = load(first)
    command = getattr(command, "commands", {}).get(inner) if inner else command
    return (
        set()
        if command is None
        else {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    )


def test_functions_that_the_page_of_state_tools_names_are_there():
    page = (REPOSITORY / "docs" / "reference" / "state-tools.md").read_text(encoding="utf-8")
    table = page.partition("| to | command | function |")[2].partition("\n\n")[0]
    named = re.findall(r"`(?:[\w.]+\.)?(\w+)\.(\w+)`", "".join(row.rpartition(" | ")[2] for row in table.splitlines()))
    assert len(named) > 10
    folders = (REPOSITORY / "keyfold" / "state", REPOSITORY / "keyfold" / "runs")
    sources = {path.stem: path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("*.py")}
    assert [f"{module}.{name}" for module, name in named if f"\ndef {name}(" not in sources.get(module, "")] == []


def test_what_test_modules_share_is_in_modules_of_its_own():
    tests = sorted((REPOSITORY / "tests").rglob("*.py"))
    imports_of_tests = re.compile(
        r"^ *from tests[\w.]*\.(?:test_\w+ import|\w+ import test_)|^ *from tests import test_", re.MULTILINE
    )
    assert [relative(path) for path in tests if imports_of_tests.search(path.read_text(encoding="utf-8"))] == []
