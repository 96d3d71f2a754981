"""What a package declares is found by being there; what is wrong with a file is told with its name."""

import sys
from itertools import count

import pytest

from keyfold.discovery import declarations, import_modules
from keyfold.errors import KeyfoldError
from keyfold.stream import Stream

_numbers = count()


class Kind:
    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes modules of a package that no other test has imported, and gives the package's name."""
    name = f"found_{next(_numbers)}"
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "tests_kind", sys.modules[__name__])

    def write(modules: dict[str, str]) -> str:
        for module, text in modules.items():
            path = folder / f"{module}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        return name

    return write


def kind(name: str) -> str:
    return f"from tests_kind import Kind\nONE = Kind({name!r})\n"


def names(package: str, **how) -> list[str]:
    return list(declarations(import_modules(package, **how), Kind))


def test_modules_are_found_by_being_there_and_those_that_declare_nothing_do_not_matter(package):
    assert names(package({"b": kind("second"), "a": kind("first"), "helper": "LIMIT = 3\n"})) == ["first", "second"]


def test_what_is_shipped_comes_first_and_the_rest_by_its_name(package):
    modules = import_modules(package({"a": kind("zebra"), "b": kind("ant"), "c": kind("bee"), "d": kind("cat")}))
    assert list(declarations(modules, Kind, first=("cat", "bee"))) == ["cat", "bee", "ant", "zebra"]


def test_a_folder_is_looked_into_at_one_module_alone(package):
    found = package({"deep/__init__": "", "deep/job": kind("deep"), "deep/other": kind("other"), "bare/__init__": ""})
    assert names(found, within="job") == ["deep"]
    assert names(found) == []


def test_a_module_that_is_to_be_skipped_is_not_imported(package):
    assert names(package({"a": kind("a"), "registry": "raise RuntimeError\n"}), skip=frozenset({"registry"})) == ["a"]


def test_a_declaration_that_another_module_imports_is_no_second_one(package):
    name = package({"a": kind("a")})
    package({"b": f"from {name}.a import ONE\n"})
    assert names(name) == ["a"]


def test_two_of_one_name_are_refused_with_both_files(package):
    modules = import_modules(package({"a": kind("twin"), "b": kind("twin")}))
    with pytest.raises(KeyfoldError, match=r"a\.py and .*b\.py both declare a Kind named 'twin'; rename one"):
        declarations(modules, Kind)


def test_a_type_that_is_not_asked_for_is_left_alone(package):
    assert declarations(import_modules(package({"a": kind("a")})), Stream) == {}


def test_every_module_that_cannot_be_imported_is_told_with_its_file_line_and_reason(package):
    found = package(
        {
            "good": kind("good"),
            "typo": "X = 1\n\nY = undefined\n",
            "half": "def f(:\n",
            "lost": "import no_such_module\n",
            "deep/__init__": "raise ValueError('broken folder')\n",
            "deep/job": kind("deep"),
        }
    )
    with pytest.raises(KeyfoldError) as refused:
        import_modules(found, within="job")
    told = str(refused.value)
    assert "typo.py cannot be imported: NameError: name 'undefined' is not defined" in told
    assert "typo.py, line 3" in told
    assert "half.py cannot be imported: line 1: invalid syntax" in told
    assert "lost.py cannot be imported: ModuleNotFoundError: No module named 'no_such_module'" in told
    assert "job.py cannot be imported: ValueError: broken folder" in told
    assert "good.py" not in told


def test_a_module_that_prints_as_it_is_imported_does_not_print_into_a_command_s_json(package, capfd):
    assert names(package({"chatty": "print('chatty is here')\n" + kind("chatty")})) == ["chatty"]
    out, errors = capfd.readouterr()
    assert (out, errors) == ("", "chatty is here\n")
