"""Generate the files of a new keyed job: its module, assets, suite and test."""

import ast
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import pyarrow as pa
from pyarrow import types

from keyfold.cli.new.names import free_name, title, words
from keyfold.cli.new.python_text import assigned, call, names, quoted
from keyfold.cli.new.stream_files import example, literal
from keyfold.cli.new.writing import render
from keyfold.errors import KeyfoldError
from keyfold.stream import TIMESTAMP, Stream


def job_paths(name: str) -> list[Path]:
    """Return the paths of a job's files, relative to the project."""
    return [
        Path("spark_jobs/jobs", f"{name}.py"),
        Path("assets", f"{name}.py"),
        Path("expectations", f"{name}.py"),
        Path("tests/spark_jobs/jobs", f"test_{name}.py"),
    ]


def job_files(name: str, stream: Stream, key: Sequence[str], group: str) -> dict[Path, str]:
    """Generate the text of each file."""
    columns = _columns(stream, key)
    taken = set(stream.event_schema.names)
    said = {
        "name": name,
        "title": title(name),
        "constant": name.upper(),
        "stream": stream.name,
        "group": group,
        "time": stream.event_time,
        "start": free_name("window_start", taken),
        "count": free_name("events", taken),
        "first_key": key[0],
    }
    model = "".join(word.capitalize() for word in words(name)) + "Parameters"
    test = {
        "event": _event(stream, columns, key),
        "two_keys": _two_keys(stream.schema.field(key[0]).type),
    }
    texts = (
        render("job.py", **said, model=model, key=f"KEY = {names(key)}", columns=assigned("COLUMNS = ", columns)),
        render("job_assets.py", **said),
        render("suite.py", **said, checks=_checks(key, said)),
        render("job_test.py", **said, **test),
    )
    return dict(zip(job_paths(name), texts, strict=True))


def possible_keys(stream: Stream, *, nullable: bool = False) -> list[str]:
    """Return the columns that may be a key: not the event time, and never NULL unless `nullable`.

    Only types with one text per value are allowed, so floats are not.
    """
    return [
        field.name
        for field in stream.schema
        if (nullable or not field.nullable)
        and field.name != stream.event_time
        and (types.is_string(field.type) or types.is_integer(field.type) or types.is_boolean(field.type))
    ]


def choose_key(stream: Stream, wanted: str | None) -> list[str]:
    """Choose the key columns of a job: those given, or else the most likely one.

    Raises:
        KeyfoldError: a column cannot be a key column, or the stream has none that can.
    """
    possible = possible_keys(stream)
    where = "declare it with nullable=False in the stream's module, if every event has it"
    if wanted is not None:
        chosen = [name.strip() for name in wanted.split(",")]
        for name in chosen:
            if name in stream.schema.names and name not in possible and name in possible_keys(stream, nullable=True):
                raise KeyfoldError(f"stream {stream.name}: {name} may be missing: {where}; or take {_listed(possible)}")
            if name not in possible or chosen.count(name) > 1:
                raise KeyfoldError(
                    f"stream {stream.name}: {name} cannot be a key column; a key column may not be NULL, given twice, or the "
                    f"event time; possible are {_listed(possible)}"
                )
        return chosen
    if not possible:
        raise KeyfoldError(f"stream {stream.name}: no column can be a key, since each may be missing: {where}")
    # If the event id has several columns, the first names an entity with many events, such as a station beside its time.
    # A single id column has one event per value, so another column is better.
    ids = [name for name in stream.event_id if name in possible]
    if ids and len(stream.event_id) > 1:
        return ids[:1]
    return [next((name for name in possible if name not in ids), possible[0])]


def group_of(root: Path, stream: Stream) -> str:
    """Find the group of assets whose `STREAM` is this stream.

    The modules in assets/ are parsed and not imported, since importing Dagster takes seconds.

    Raises:
        KeyfoldError: no module has the stream.
    """
    for file in sorted((root / "assets").glob("*.py")):
        found = _AssetModule.read(file)
        if found.group and found.stream() is stream:
            return found.group
    raise KeyfoldError(
        f"no module in {root / 'assets'} has the stream {stream.name} as its STREAM, so its tables are not assets; "
        "add one first, like those of `keyfold new stream`"
    )


def groups(root: Path) -> set[str]:
    """Return all groups of assets, parsed from the modules in assets/."""
    return {module.group for file in (root / "assets").glob("*.py") if (module := _AssetModule.read(file)).group}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


class _AssetModule:
    """A parsed module of assets/: its group and its stream."""

    def __init__(self, tree: ast.Module) -> None:
        self._imported: dict[str, tuple[str, str]] = {}
        self._assigned: dict[str, ast.expr] = {}
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                self._imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                self._assigned[node.targets[0].id] = node.value
        group = self._assigned.get("GROUP")
        self.group = str(group.value) if isinstance(group, ast.Constant) else ""

    @classmethod
    def read(cls, file: Path) -> "_AssetModule":
        try:
            return cls(ast.parse(file.read_text(encoding="utf-8")))
        except SyntaxError as error:
            raise KeyfoldError(f"{file}, line {error.lineno}: {error.msg}; correct it first") from None

    def stream(self) -> Stream | None:
        name, value = "STREAM", self._assigned.get("STREAM")
        if isinstance(value, ast.Name):
            name = value.id
        elif value is not None:
            return None
        module, attribute = self._imported.get(name, ("", ""))
        found = getattr(import_module(module), attribute) if module.startswith("spark_jobs.streams") else None
        return found if isinstance(found, Stream) else None


def _columns(stream: Stream, key: Sequence[str]) -> list[str]:
    """Return the columns that the job reads: the key, the event time, and others that are neither private nor nested."""
    others = [
        field.name
        for field in stream.schema
        if field.name not in (*key, stream.event_time, *stream.private) and not types.is_nested(field.type)
    ]
    return [*key, stream.event_time, *others]


def _checks(key: Sequence[str], said: Mapping[str, str]) -> str:
    """Generate the entries of the suite."""
    start, count = said["start"], quoted(said["count"])
    before = quoted(f"`{said['time']}` < `{start}`")
    window = f"[{', '.join(map(quoted, (*key, start)))}]"
    most = '"A window has at most 100,000 events on average: edit this number."'
    checks = [
        *((f"{one}_is_there", "critical.not_null", [quoted(one), '"Every row names its key."']) for one in key),
        ("one_row_a_window", "critical.unique", [window, '"A key has one row a window."']),
        ("events_are_counted", "critical.between", [count, '"A written window has events."', "min_value=1"]),
        (
            "the_last_event_is_in_its_window",
            "critical.never",
            [before, '"The last event of a window is not before its start."'],
        ),
        ("events_are_as_many_as_usual", "info.mean_between", [count, most, "max_value=100_000"]),
    ]
    return "\n".join(call(f"{quoted(name)}: {kind}", arguments, 4) for name, kind, arguments in checks)


def _event(stream: Stream, columns: Sequence[str], key: Sequence[str]) -> str:
    """Generate the fields that all events of the test share: all but the first key column and the event time."""
    fields = [stream.schema.field(name) for name in columns if name not in (key[0], stream.event_time)]
    lines = "".join(f"    {quoted(field.name)}: {literal(_example(field.type))},\n" for field in fields)
    return f"{{\n{lines}}}" if lines else "{}"


def _example(kind: pa.DataType) -> object:
    for near, target in (
        (types.is_integer, pa.int64()),
        (types.is_floating, pa.float64()),
        (types.is_timestamp, TIMESTAMP),
    ):
        if near(kind):
            return example(target)
    return example(kind)


def _two_keys(kind: pa.DataType) -> str:
    if types.is_boolean(kind):
        return "False, True"
    return "1, 2" if types.is_integer(kind) else '"a", "b"'
