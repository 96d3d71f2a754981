"""Propose columns of landing files that a stream does not have, and write them into its module."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pyarrow as pa

from keyfold.cli.new.columns import RawColumn, propose_columns
from keyfold.cli.new.module_edit import UnsafeEditError, with_entries
from keyfold.cli.new.names import column_names, free_name, label_and_unit
from keyfold.cli.new.private import why_private
from keyfold.cli.new.proposal import Column, is_number, why_kept_private
from keyfold.cli.new.python_text import quoted
from keyfold.cli.new.sample import read_sample
from keyfold.cli.new.stream_files import column_text, source_text, stream_of
from keyfold.errors import KeyfoldError
from keyfold.ingestion.drift import find_drift
from keyfold.stream import TIMESTAMP, Stream
from keyfold.stream.raw_paths import EACH, path_of

# Fields of `Stream` that are checked one by one: accepting a column changes the first three, and rules are functions, which do
# not compare equal once the text has been executed again.
_MAY_CHANGE = {"schema", "sources", "private", "rules"}


@dataclass(frozen=True)
class Acceptance:
    """Columns to add to a stream.

    Attributes:
        columns: the proposed columns; each may be NULL.
        private: names of the private columns.
        notes: notes for people.
    """

    columns: Sequence[Column]
    private: Sequence[str]
    notes: Sequence[str]

    @property
    def entries(self) -> dict[str, list[str]]:
        """The lines to add, by the argument of `Stream`."""
        sources = [one for one in self.columns if one.name != one.source.raw or one.source.time or one.source.json]
        found = {
            "schema": [column_text(one, is_event_time=False) for one in self.columns],
            "sources": [f"{quoted(one.name)}: {source_text(one)}" for one in sources],
            "private": [quoted(name) for name in self.private],
        }
        return {argument: lines for argument, lines in found.items() if lines}


def propose_accepted(stream: Stream, raw: str, file: Path) -> Acceptance:
    """Propose stream columns for a raw column of a file, or for all fields of a raw object.

    Raises:
        KeyfoldError: ingest cannot read its values.
    """
    steps = path_of(raw)
    sample = read_sample(file, steps[: steps.index(EACH)] if EACH in steps else None)
    found = [one for one in propose_columns(sample) if one.raw == raw or one.raw.startswith((f"{raw}.", f"{raw}["))]
    if unread := [one.raw for one in found if one.kind is None or (one.json and EACH in path_of(one.raw))]:
        raise KeyfoldError(
            f"{', '.join(unread)} of {file.name} has values that ingest does not read; name it in `ignored` of stream "
            f"{stream.name}, or read its fields by paths"
        )
    if not found:
        raise KeyfoldError(f"{file.name} has no {raw} in its first rows")
    labels = {one.raw: label_and_unit(one.raw) if is_number(one.kind) else (one.raw, "") for one in found}
    names = column_names({one: label for one, (label, _) in labels.items()})
    columns: list[Column] = []
    for one in found:
        name = free_name(names[one.raw], {*stream.schema.names, *(column.name for column in columns)})
        columns.append(Column(name, one, nullable=True, unit=labels[one.raw][1]))
    private = {one.name: why for one in columns if (why := _why_private(stream, one.source))}
    notes = [f"{one.raw}: {note}" for one in found for note in one.notes]
    notes += [f"{name} is accepted as private, {why}" for name, why in private.items()]
    return Acceptance(columns, list(private), notes)


def accepted_module(stream: Stream, text: str, acceptance: Acceptance, raw: str, file: Path) -> str:
    """Return the text of a stream's module with the columns added.

    The text is executed to verify that it declares the same stream with these columns and no other change.

    Raises:
        UnsafeEditError: the text cannot be changed safely.
    """
    imports = {"column"} | ({"Source"} if "sources" in acceptance.entries else set())
    imports |= {"TIMESTAMP"} if any(one.kind == TIMESTAMP for one in acceptance.columns) else set()
    changed = with_entries(text, stream.name, acceptance.entries, imports)
    try:
        found = stream_of(changed)
    except Exception as error:
        raise UnsafeEditError(f"with them it would fail: {error}") from None
    new = pa.schema([pa.field(one.name, one.kind) for one in acceptance.columns])
    as_before = {one.name for one in fields(Stream)} - _MAY_CHANGE
    is_as_meant = (
        found.schema == pa.schema([*stream.schema, *new])
        and all(getattr(found, name) == getattr(stream, name) for name in as_before)
        and found.private == (*stream.private, *acceptance.private)
        and all(found.source(name) == stream.source(name) for name in stream.schema.names)
        and len(found.rules) == len(stream.rules)
        and not any(raw in one.unknown for one in find_drift(found, [file]))
    )
    if not is_as_meant:
        raise UnsafeEditError("with them it would change more than these columns")
    return changed


def _why_private(stream: Stream, column: RawColumn) -> str:
    if column.json:
        return why_kept_private(column)
    # A new field beside a private one may be private too, so it is masked until somebody reviews it.
    holders = {path_of(name)[:-1] for private in stream.private for name in stream.source(private).names}
    if path_of(column.raw)[:-1] and path_of(column.raw)[:-1] in holders:
        return "since a column beside it is private"
    return why_private(column.raw, column.values)
