"""The results of a trial as Markdown, for a comment on a pull request: counts, and examples column by column.

Values come from data: each is a span of code on one line, in which nothing is markup, a mention or the end of a cell.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from keyfold.cli.terminal import visible
from keyfold.errors import counted
from keyfold.privacy import masked_changes
from keyfold.state.changing.migrating import Change
from keyfold.state.changing.trying import Trial
from keyfold.state.differences import Difference

LONGEST = 60_000
"""Bytes of a comment, at most: GitHub takes 65,536 characters."""
_EXAMPLES = 5
_LONGEST_VALUE = 200
_MOST_COLUMNS = 20
_KINDS = ("added", "changed", "removed")


def trial_markdown(trials: Sequence[Trial], changes: Sequence[Change], not_compared: Sequence[str] = ()) -> str:
    """Return the results of trials as Markdown of at most `LONGEST` bytes; of many examples, the first.

    Args:
        trials: a job's trial, and those of its consumers.
        changes: what its author changed.
        not_compared: what else is not compared, and why.
    """
    first = trials[0]
    of_keys = "all keys" if first.share is None else f"{100 * first.share.share:g} % of the keys"
    lines = [f"## keyfold try {_code(first.job.name)}: {of_keys}, {first.run.counts.events:,} events", ""]
    lines += [f"- {_code(str(change))}" for change in changes] or ["- no declared change"]
    lines += ["", "| table | added | changed | removed | columns that differ |", "|---|---|---|---|---|"]
    examples: list[str] = []
    for trial in trials:
        for name, difference in trial.tables.items():
            lines.append(_counts(name, difference))
            examples += _examples(trial, name, difference)
    missing = [*(reason for trial in trials for reason in trial.not_compared), *not_compared]
    lines += ["", *(f"Not compared: {_code(reason)}" for reason in missing)]
    return _cut(lines, examples)


def _counts(name: str, difference: Difference) -> str:
    counts = difference.summary()
    columns = [f"{_code(column)} {number:,}" for column, number in counts.columns.items()]
    columns += [f"{_code(column)} not compared" for column in counts.not_compared]
    if len(columns) > _MOST_COLUMNS:
        columns = [*columns[:_MOST_COLUMNS], f"{len(columns) - _MOST_COLUMNS:,} more"]
    return f"| {_code(name)} | {counts.added:,} | {counts.changed:,} | {counts.removed:,} | {', '.join(columns)} |"


def _examples(trial: Trial, name: str, difference: Difference) -> Iterator[str]:
    """Yield the examples of a table: one text each, a header with the first of a kind."""
    schema = next(table.schema for table in trial.job.tables if table.name == name)
    # What differs is decided by the values, and what is shown by the masked ones.
    rows = difference.first_of_each(_EXAMPLES)
    shown = masked_changes(rows, trial.job.private_of(schema))
    for kind in _KINDS:
        header = f"\n**{_code(name)}: {kind}**\n\n| key | column | before | after |\n|---|---|---|---|\n"
        pairs = zip(rows.iter_rows(named=True), shown.iter_rows(named=True), strict=True)
        for row, masked_row in (pair for pair in pairs if pair[0]["change"] == kind):
            yield header + "\n".join(_cells(row, masked_row, difference))
            header = ""


def _cells(row: Mapping[str, Any], shown: Mapping[str, Any], difference: Difference) -> Iterator[str]:
    """Yield a line for each column that differs in the rows of a key."""
    key = ", ".join(f"{name}={_text(shown[name])}" for name in difference.key)
    places = list(zip_longest(row["before"] or [], row["after"] or []))
    for place, (before, after) in enumerate(places):
        label = key if len(places) == 1 else f"{key} (row {place + 1} of {len(places)})"
        columns = difference.columns or ("",)
        if before is not None and after is not None:
            columns = [name for name in columns if str(before.get(name)) != str(after.get(name))]
        for column in columns:
            values = (_value(shown[side], place, column) for side in ("before", "after"))
            yield f"| {_code(label)} | {_code(column) if column else ''} | {' | '.join(values)} |"


def _value(rows: Sequence[Mapping[str, Any]] | None, place: int, column: str) -> str:
    return _code(_text(rows[place].get(column))) if rows is not None and place < len(rows) and column else ""


def _cut(lines: Sequence[str], examples: Sequence[str]) -> str:
    text = "\n".join(lines).rstrip() + "\n"
    size, left = len(text.encode()), len(examples)
    shown = []
    for example in examples:
        size += len(example.encode()) + 1
        if size > LONGEST - _OF_THE_END:
            break
        shown.append(example)
        left -= 1
    end = f"\n{counted(left, 'example')} left out: a comment has at most {LONGEST // 1000} kB.\n" if left else ""
    return (text + "\n".join(shown) + ("\n" if shown else "") + end).encode()[:LONGEST].decode(errors="ignore")


_OF_THE_END = 100
"""Bytes that are kept for the line that says what is left out."""


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    text = json.dumps(value, default=str, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _code(text: str) -> str:
    """Return a text as a span of code, which ends where the text does."""
    plain = visible(text).replace("|", "\\|")
    ticks = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    space = " " if "`" in (plain[:1], plain[-1:]) else ""
    return f"{ticks}{space}{plain or ' '}{space}{ticks}"
