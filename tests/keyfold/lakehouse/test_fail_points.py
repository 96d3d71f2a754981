"""The list of fail points is what the code marks: tests kill at each point of the list."""

import ast
from pathlib import Path

import keyfold
from keyfold.lakehouse.fail_points import POINTS


def marked():
    for file in Path(keyfold.__file__ or "").parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "reached":
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{file}: a fail point has a fixed name"
                assert isinstance(name.value, str), file
                yield name.value


def test_each_point_that_the_code_marks_is_in_the_list_once_and_no_other():
    assert sorted(POINTS) == sorted(set(marked()))
