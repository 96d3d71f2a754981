"""Find the source of functions and classes as syntax trees, and bring these into a form in which only what is done counts."""

import ast
import inspect
import linecache
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def tree_of(of: FunctionType | type) -> Definition | None:
    """Return the syntax tree of a function or class; None where its source cannot be read.

    Example:
        >>> ast.unparse(tree_of(tree_of)).splitlines()[0]
        'def tree_of(of: FunctionType | type) -> Definition | None:'
    """
    try:
        file = inspect.getsourcefile(of)
        lines = linecache.getlines(file) if file else []
    except TypeError:
        return None
    try:
        module = _parsed("".join(lines)) if lines else None
    except (SyntaxError, ValueError):
        return None
    if module is None:
        return None
    return _class_in(module, of) if isinstance(of, type) else _function_in(module, of.__code__)


@lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


# A run asks for the same definitions several times, and a large step has many: each is looked up and brought into its form once.
_KEPT = 2_048


@lru_cache(maxsize=_KEPT)
def _class_in(module: ast.Module, of: type) -> ast.ClassDef | None:
    parts: Any = module
    for name in of.__qualname__.split("."):
        if name == "<locals>":
            continue
        within = [node for node in ast.walk(parts) if getattr(node, "name", None) == name]
        parts = next(iter(within), None)
        if parts is None:
            return None
    return parts if isinstance(parts, ast.ClassDef) else None


@lru_cache(maxsize=_KEPT)
def _function_in(module: ast.Module, code: CodeType) -> Definition | None:
    candidates = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        and min(part.lineno for part in (node, *getattr(node, "decorator_list", ()))) == code.co_firstlineno
        and getattr(node, "name", "<lambda>") == code.co_name
    ]
    if len(candidates) < 2:
        return next(iter(candidates), None)
    # Several lambdas in a line: the one within whose body all instructions are; what begins a function has no width.
    places = [place for place in code.co_positions() if None not in place and place[3]]
    return next((candidate for candidate in candidates if all(_is_within(place, candidate) for place in places)), None)


def _is_within(place: tuple[Any, ...], definition: Any) -> bool:
    line, end_line, column, end_column = place
    body = definition.body
    begins, ends = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    return begins <= (line, column) and (end_line, end_column) <= ends


@lru_cache(maxsize=_KEPT)
def stripped(definition: Definition) -> Definition:
    r"""Return a definition without docstrings, annotations and imports: what is imported counts where it is used.

    Example:
        >>> tree = ast.parse("def f(x: int) -> int:\n    'Adds.'\n    return x+1  # one").body[0]
        >>> ast.unparse(stripped(tree)).splitlines()
        ['def f(x):', '    return x + 1']
    """
    return ast.fix_missing_locations(_Strip().visit(deepcopy(definition)))


class _Strip(ast.NodeTransformer):
    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.body = _without_docstring(node.body)
        visited = self.generic_visit(node)
        if isinstance(getattr(visited, "body", None), list) and not visited.body:  # type: ignore[attr-defined]
            visited.body = [ast.Pass()]  # type: ignore[attr-defined]
        return visited


@lru_cache(maxsize=_KEPT)
def text_of(stripped_definition: Definition) -> str:
    """Return the text of a stripped definition in Python's own formatting."""
    return ast.unparse(stripped_definition)


@lru_cache(maxsize=_KEPT)
def normalized(definition: Definition) -> Any:
    r"""Return a stripped definition as JSON: its nodes and values, without formatting and the name of the whole.

    Example:
        >>> one, other = (ast.parse(text).body[0] for text in ("def f(x): return x+1  # adds", "def g(x):\n    return x + 1"))
        >>> normalized(one) == normalized(other)
        True
    """
    return _dumped(definition, is_outermost=True)


_NOT_COUNTED = ("type_comment", "ctx", "kind", "type_params")


def _dumped(node: Any, *, is_outermost: bool = False) -> Any:
    if isinstance(node, list):
        return [_dumped(item) for item in node]
    if not isinstance(node, ast.AST):
        return node if node is None or isinstance(node, str) else repr(node)
    if isinstance(node, ast.Constant):
        # With its type, so that 1 is not True.
        return ["Constant", type(node.value).__name__, repr(node.value)]
    fields = {name: value for name, value in ast.iter_fields(node) if name not in _NOT_COUNTED}
    if is_outermost:
        fields.pop("name", None)
    dumped = {name: _dumped(value) for name, value in fields.items()}
    # Empty fields are left out: a later version of Python may have more of them.
    return [type(node).__name__, {name: value for name, value in dumped.items() if value not in (None, [])}]


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0] if body else None
    is_docstring = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_docstring else body


def names_in(definition: Definition) -> Iterator[tuple[str, ...]]:
    """Yield the names that a definition uses, each with the attributes that are taken of it: `zones.assign` as two."""
    inner: set[int] = set()
    for node in ast.walk(definition):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            chain, part = [node.attr], node.value
            while isinstance(part, ast.Attribute):
                inner.add(id(part))
                chain.append(part.attr)
                part = part.value
            if isinstance(part, ast.Name):
                inner.add(id(part))
                yield (part.id, *reversed(chain))
        elif isinstance(node, ast.Name) and id(node) not in inner:
            yield (node.id,)


def imports_in(definition: Definition) -> Iterator[tuple[str, str, int, str]]:
    """Yield what a definition imports itself: module, name in it (empty for the module), level of a relative import, and name here."""
    for node in ast.walk(definition):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name, node.level, alias.asname or alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            # Without `as`, the name is of the outermost package.
            yield from (
                (
                    alias.name if alias.asname else alias.name.partition(".")[0],
                    "",
                    0,
                    alias.asname or alias.name.partition(".")[0],
                )
                for alias in node.names
            )
