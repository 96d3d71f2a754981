"""Generate the files of a project, and of a stream with its job; write all of them or none."""

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from keyfold.cli.new.names import bracketed, quoted
from keyfold.cli.new.sample import Column, Proposal
from keyfold.errors import KeyfoldError
from keyfold.stream import INGESTED_AT, TIMESTAMP, FileFormat, Stream
from keyfold.stream.source import ISO

_TEMPLATES = Path(__file__).with_name("templates")
# Not escaped for HTML: the templates are Python.
_MAKE = Environment(loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True)  # noqa: S701
_MOMENT = datetime(2026, 1, 1, 6, tzinfo=UTC)
_KINDS: dict[pa.DataType | None, tuple[str, str]] = {
    pa.string(): ("pa.string()", '"a"'),
    pa.int64(): ("pa.int64()", "1"),
    pa.float64(): ("pa.float64()", "1.5"),
    pa.bool_(): ("pa.bool_()", "True"),
    pa.date32(): ("pa.date32()", f'"{_MOMENT:%Y-%m-%d}"'),
    TIMESTAMP: ("TIMESTAMP", f'"{_MOMENT:%Y-%m-%dT%H:%M:%SZ}"'),
}
"""How each type is written, and an example of a raw value."""


def job_of(name: str) -> str:
    """Return the name of the job that is written for a stream."""
    return f"hourly_{name}"


def project_files(name: str, *, is_mine: bool = False) -> dict[Path, str]:
    """Generate the files of a project, apart from those of its stream and job.

    Args:
        name: of the project.
        is_mine: whether its sample is a file of the user's, which Git is to ignore.
    """
    said = {"name": name, "job": job_of(name), "version": version("keyfold"), "is_mine": is_mine}
    places = [file.relative_to(_TEMPLATES / "project") for file in (_TEMPLATES / "project").rglob("*.jinja")]
    texts = {place.with_suffix(""): _render(f"project/{place}", said) for place in sorted(places)}
    # The template is named without the dot, since the globs of a wheel skip names with a leading dot.
    return texts | {Path(".gitignore"): texts.pop(Path("gitignore"))}


def example_rows() -> str:
    """Generate JSON lines of an example: readings of five sensors in six hours."""
    moments = [(minute, (_MOMENT + timedelta(minutes=minute)).isoformat()) for minute in range(0, 360, 10)]
    return "".join(
        json.dumps({"sensor_id": f"s{sensor}", "at": at, "temperature": 18.5 + sensor + minute % 60 / 10}) + "\n"
        for minute, at in moments
        for sensor in range(1, 6)
    )


def stream_files(name: str, proposal: Proposal, command: str) -> dict[Path, str]:
    """Generate the files of a stream and its job.

    Args:
        command: the command that writes them.
    """
    read = proposal.read
    sourced = [column for column in read if column.name != column.raw or column.formats or column.json]
    is_arrival, has_times = (
        proposal.time == INGESTED_AT,
        any("TIMESTAMP" in _written(column.kind)[0] for column in read),
    )
    imports = (
        ["INGESTED_AT"] * is_arrival
        + ["TIMESTAMP"] * has_times
        + ["FileFormat"] * (proposal.format != FileFormat())
        + ["Source"] * bool(sourced)
        + ["Stream", "column"]
    )
    arguments = [
        f"    event_time={'INGESTED_AT' if is_arrival else quoted(proposal.time)},",
        *(["    sources={", *map(_source, sourced), "    },"] if sourced else []),
        *_format(proposal.format),
        *_tuple("ignored", [column.raw for column in proposal.columns if column.kind is None]),
        *_tuple("private", [column.name for column in proposal.private]),
    ]
    said = {
        "name": name,
        "job": job_of(name),
        "title": _title(name),
        "command": command,
        "imports": ", ".join(imports),
        "columns": "\n".join(_declaration(column, proposal) for column in read),
        "arguments": "\n".join(arguments),
        "key": proposal.key.name,
        "row": "\n".join(f"    {quoted(column.raw)}: {_raw_value(column)}," for column in read),
        "needed": bracketed("[", [quoted(column.raw) for column in proposal.needed], "]", 0),
        "two_keys": {pa.bool_(): "False, True", pa.int64(): "1, 2"}.get(proposal.key.kind, '"a", "b"'),
    }
    places = {
        f"spark_jobs/streams/{name}.py": "stream.py.jinja",
        f"spark_jobs/jobs/{job_of(name)}.py": "job.py.jinja",
        f"assets/{name}.py": "assets.py.jinja",
        f"expectations/{job_of(name)}.py": "suite.py.jinja",
        f"tests/test_{name}.py": "test.py.jinja",
    }
    return {Path(place): _render(template, said) for place, template in places.items()}


def stream_of(texts: Mapping[Path, str], name: str) -> Stream:
    """Execute the text of the stream's module, and return the stream that it declares."""
    written: dict[str, Any] = {}
    text = texts[Path("spark_jobs/streams", f"{name}.py")]
    exec(compile(text, "the new stream", "exec"), written)  # noqa: S102 - what is about to be written, and would be imported
    return written["STREAM"]


def write_files(root: Path, texts: Mapping[Path, str]) -> None:
    """Write files below the root.

    Raises:
        KeyfoldError: a file, or a package of its name, exists, or cannot be written; all files written so far are removed.
    """
    if taken := [str(path) for path in texts if (root / path).exists() or (root / path).with_suffix("").is_dir()]:
        raise KeyfoldError(f"{', '.join(taken)} exists; nothing was written: choose another name")
    written: list[Path] = []
    try:
        for path, text in texts.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            # Mode "x", so that a file created since the check is not overwritten.
            with open(target, "x", encoding="utf-8") as file:
                written.append(target)
                file.write(text)
    except OSError as error:
        for target in written:
            os.unlink(target)
        raise KeyfoldError(f"{error.filename} cannot be written: {error.strerror}; nothing was written") from None


def _render(template: str, said: Mapping[str, Any]) -> str:
    return _MAKE.get_template(template).render(said)


def _declaration(column: Column, proposal: Proposal) -> str:
    meaning = "Event time: when it happened (UTC)" if column.name == proposal.time else _title(column.name)
    needed = ["nullable=False"] if column in proposal.needed else []
    return bracketed("column(", [quoted(column.name), _written(column.kind)[0], quoted(meaning), *needed], "),", 12)


def _written(kind: pa.DataType | None) -> tuple[str, str]:
    """Return how a type is written, and an example of a raw value."""
    if kind is not None and pa.types.is_list(kind):
        written, value = _written(kind.value_type)
        return f"pa.list_({written})", f"[{value}]"
    if kind is not None and pa.types.is_struct(kind):
        inside = [(quoted(field.name), *_written(field.type)) for field in kind]
        fields = ", ".join(f"({name}, {written})" for name, written, _ in inside)
        return f"pa.struct([{fields}])", f"{{{', '.join(f'{name}: {value}' for name, _, value in inside)}}}"
    if kind is not None and pa.types.is_decimal(kind):
        return f"pa.decimal128({kind.precision}, {kind.scale})", "0"
    return _KINDS[kind]


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _source(column: Column) -> str:
    more = _time(column.formats) + ["json=True"] * column.json
    return bracketed(f"{quoted(column.name)}: Source(", [quoted(column.raw), *more], "),", 8)


def _time(formats: tuple[str, ...]) -> list[str]:
    if len(formats) < 2:
        return [f"time={quoted(name)}" for name in formats]
    return [f"time=({', '.join(map(quoted, formats))})"]


def _format(form: FileFormat) -> list[str]:
    changed = {name: value for name, value in vars(form).items() if value != getattr(FileFormat, name)}
    arguments = [f"{name}={quoted(value)}" for name, value in changed.items()]
    return [bracketed("format=FileFormat(", arguments, "),", 4)] if arguments else []


def _tuple(argument: str, values: list[str]) -> list[str]:
    return [bracketed(f"{argument}=(", [quoted(value) for value in values], "),", 4)] if values else []


def _raw_value(column: Column) -> str:
    """Write an example of a raw value."""
    if column.json or column.kind is None:
        return "{}"
    if not column.formats or ISO in column.formats:
        return _written(column.kind)[1]
    [form] = column.formats
    if "%" in form:
        return quoted(pl.Series([_MOMENT]).dt.strftime(form).item())
    return str(int(_MOMENT.timestamp()) * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[form])
