"""Add entries to a stream's declaration in the source text of its module, and change nothing else."""

import ast
from collections.abc import Collection, Mapping, Sequence

from keyfold.cli.new.python_text import LINE

_OPENING = {"sources": ("{", "}"), "private": ("(", ")")}


class UnsafeEditError(Exception):
    """The source text has a form in which entries cannot be added safely; the message says why."""


def with_entries(text: str, stream: str, entries: Mapping[str, Sequence[str]], imports: Collection[str]) -> str:
    """Add entries to arguments of a `Stream(...)`.

    Args:
        text: the module's source text.
        stream: the declared name of the stream.
        entries: lines to add by argument: `schema`, `sources`, `private`.
        imports: the names that the lines need, of `column`, `Source` and `TIMESTAMP`.

    Raises:
        UnsafeEditError: the declaration has an unexpected form.

    Example:
        >>> text = "STREAM = Stream(name='a', private=('who',))"
        >>> with_entries(text, "a", {"private": ["'where'"]}, ())
        "STREAM = Stream(name='a', private=('who', 'where'))"
    """
    # Offsets of `ast` count bytes of UTF-8, so the text is edited as bytes.
    source = text.encode()
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise UnsafeEditError(f"it is no Python: {error}") from None
    declared = _declaration(tree, stream)
    edits = [_edit(source, tree, declared, argument, lines) for argument, lines in entries.items()]
    edits += _imports(source, tree, imports)
    # Backwards, so that earlier offsets stay valid.
    for start, end, new in sorted(edits, reverse=True):
        source = source[:start] + new.encode() + source[end:]
    return source.decode()


_Edit = tuple[int, int, str]
"""Begin and end of the replaced bytes, and the new text."""


def _declaration(tree: ast.Module, stream: str) -> ast.Call:
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Stream"
    ]
    if len(calls) != 1 or calls[0].args[1:]:
        raise UnsafeEditError(f"it does not declare {stream} by one Stream(...) with named arguments")
    return calls[0]


def _edit(source: bytes, tree: ast.Module, declared: ast.Call, argument: str, lines: Sequence[str]) -> _Edit:
    given = {one.arg: one for one in declared.keywords}
    if argument not in given:
        if argument == "schema":
            raise UnsafeEditError("its schema is no named argument")
        return _new_argument(source, given, argument, lines)
    value = _resolved(tree, given[argument].value)
    if argument == "schema":
        if not (isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.List)):
            raise UnsafeEditError("its schema is not a list within pa.schema(...)")
        value = value.args[0]
    return _appended(source, value, argument, lines)


def _resolved(tree: ast.Module, value: ast.expr) -> ast.expr:
    """Resolve a name that is assigned at the top of the module."""
    if not isinstance(value, ast.Name):
        return value
    found = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == [value.id]
    ]
    if len(found) != 1:
        raise UnsafeEditError(f"{value.id} is not assigned once in the module")
    return found[0]


def _appended(source: bytes, value: ast.expr, argument: str, lines: Sequence[str]) -> _Edit:
    held = _items(value)
    if not held:
        raise UnsafeEditError(f"its {argument} are not written out, or are empty")
    first = held[0][0]
    last, closing = _end(source, held[-1][1]), _end(source, value) - 1
    between = source[last:closing]
    if source[closing : closing + 1] not in (b"]", b"}", b")") or between.strip() not in (b"", b","):
        raise UnsafeEditError(f"something stands behind the last of its {argument}")
    if b"\n" not in source[_start(source, value) : closing]:
        return _on_one_line(source, value, last, lines)
    if b"\n" not in between:
        raise UnsafeEditError(f"the last of its {argument} is not on a line of its own")
    begin = source.rfind(b"\n", 0, _start(source, first)) + 1
    indent = source[begin : _start(source, first)]
    if indent.strip():
        raise UnsafeEditError(f"the first of its {argument} is not on a line of its own")
    at = last + len(between.rstrip())
    comma = "" if b"," in between else ","
    return at, at, comma + "".join(f"\n{_indented(line, indent.decode())}," for line in lines)


def _items(value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return the first and last node of each entry; none if some entries are unpacked with `*` or `**`."""
    if isinstance(value, ast.Dict):
        keys = [key for key in value.keys if key is not None]
        return list(zip(keys, value.values, strict=True)) if len(keys) == len(value.values) else []
    return [(one, one) for one in value.elts] if isinstance(value, ast.List | ast.Tuple) else []


def _on_one_line(source: bytes, value: ast.expr, last: int, lines: Sequence[str]) -> _Edit:
    """Append entries on the same line, or put all entries on lines of their own if it would be too long."""
    opening, closing = _start(source, value), _end(source, value) - 1
    begin, end = source.rfind(b"\n", 0, opening) + 1, (source + b"\n").index(b"\n", closing)
    more = "".join(f", {line}" for line in lines)
    if len((source[begin:last] + source[closing:end]).decode()) + len(more) <= LINE:
        return last, closing, more
    there = [source[_start(source, first) : _end(source, behind)].decode() for first, behind in _items(value)]
    indent = source[begin:opening].decode()
    space = indent[: len(indent) - len(indent.lstrip())]
    every = "".join(f"\n{_indented(line, f'{space}    ')}," for line in (*there, *lines))
    return opening + 1, closing, f"{every}\n{space}"


def _new_argument(source: bytes, given: Mapping[str | None, ast.keyword], argument: str, lines: Sequence[str]) -> _Edit:
    if "event_time" not in given:
        raise UnsafeEditError("its event_time is no named argument")
    before = given["event_time"]
    at = _end(source, before.value)
    begin = source.rfind(b"\n", 0, at) + 1
    indent = source[begin : _start(source, before)]
    if indent.strip() or source[at : at + 2] != b",\n":
        raise UnsafeEditError("its event_time is not on a line of its own")
    opening, end = _OPENING[argument]
    if argument == "private":
        inside = f"{opening}{', '.join(lines)}{',' if len(lines) == 1 else ''}{end}"
    else:
        space = indent.decode()
        inside = f"{opening}\n" + "".join(f"{space}    {line},\n" for line in lines) + f"{space}{end}"
    return at + 1, at + 1, f"\n{indent.decode()}{argument}={inside},"


_HOMES = {
    "column": ("keyfold", "keyfold.columns"),
    "Source": ("keyfold", "keyfold.stream"),
    "TIMESTAMP": ("keyfold.stream",),
}
"""The modules from which a stream's module may import each name."""


def _imports(source: bytes, tree: ast.Module, names: Collection[str]) -> list[_Edit]:
    imported = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    there = {one.asname or one.name for node in imported for one in node.names}
    plain = {
        node.module: node
        for node in imported
        if node.module and node.lineno == node.end_lineno and not any(one.asname for one in node.names)
    }
    added: dict[str, set[str]] = {}
    for name in sorted(set(names) - there):
        homes = [home for home in _HOMES[name] if home in plain]
        if not homes:
            raise UnsafeEditError(f"it has no plain line `from {_HOMES[name][0]} import …` to add {name} to")
        added.setdefault(homes[0], set()).add(name)
    edits: list[_Edit] = []
    for home, new in added.items():
        node = plain[home]
        # Ruff sorts constants first, then classes, then functions.
        every = sorted(
            {one.name for one in node.names} | new, key=lambda name: (not name.isupper(), name[0].islower(), name)
        )
        edits.append((_start(source, node), _end(source, node), f"from {home} import {', '.join(every)}"))
    return edits


def _indented(line: str, indent: str) -> str:
    """Indent an entry, which may have several lines."""
    return "\n".join(f"{indent}{one}" for one in line.split("\n"))


def _start(source: bytes, node: ast.expr | ast.stmt | ast.keyword) -> int:
    return _offset(source, node.lineno, node.col_offset)


def _end(source: bytes, node: ast.expr | ast.stmt | ast.keyword) -> int:
    if node.end_lineno is None or node.end_col_offset is None:
        raise UnsafeEditError("a part of it has no end")
    return _offset(source, node.end_lineno, node.end_col_offset)


def _offset(source: bytes, line: int, column: int) -> int:
    lines = source.split(b"\n")
    return sum(len(one) + 1 for one in lines[: line - 1]) + column
