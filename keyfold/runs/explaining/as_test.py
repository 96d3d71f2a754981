"""Write a test of the batches of a key: with its events and clocks, it asserts the rows that they give.

Private texts and numbers are replaced by others, the same for the same, and other private values are left out; so the test asserts what
the step makes of these.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pprint import pformat
from typing import Any

import polars as pl

from keyfold.errors import InvalidData
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.contract import KeyedJob
from keyfold.project_folder import definitions_module
from keyfold.runs.explaining.key_events import KeyEvents
from keyfold.runs.explaining.replay import PlayedBatch

_MOST_ROWS = 1_000
"""Rows of a lookup that a test has."""


def test_of(job: KeyedJob, table: str, events: KeyEvents, batches: Sequence[PlayedBatch]) -> str:
    """Return the text of a test file, which `keyfold.testing.assert_rows` runs.

    Args:
        job: the job, with the parameters of its live generation.
        table: the table whose rows are asserted.
        events: the events of a key.
        batches: its batches, from one that found no state on.

    Raises:
        InvalidData: the rows depend on what a test cannot have: a state that was changed by hand, a private value, or a large lookup.
    """
    if changed := next((batch for batch in batches if batch.clocks["changed_state"]), None):
        raise InvalidData(
            f"no test can be written: batch {changed.clocks['batch']} changed the state ({changed.clocks['changed_state']})"
        )
    frame = _without_private(job, events.events)
    played, harness = list[dict[str, Any]](), TestHarness(job)
    for batch in batches:
        rows, clock = frame[batch.first : batch.end], batch.clock
        harness.batch_at(clock, rows)
        played.append(
            {
                "clock": {
                    "previous_watermark": clock.previous_watermark,
                    "watermark": clock.watermark,
                    "processing_time": clock.processing_time,
                    "watermarks": dict(clock.watermarks),
                },
                "events": rows.to_dicts(),
                "lookups": {name: _rows_of_lookup(job, name, looked_up) for name, looked_up in clock.lookups.items()},
            }
        )
    expected = harness.written[table].to_dicts()
    module, name = definitions_module(), "".join(letter if letter.isalnum() else "_" for letter in table)
    return (
        f'"""Made by `keyfold explain {table}`: the events of a key, with the clocks of the batches that read them."""\n\n'
        "import datetime\nfrom decimal import Decimal  # noqa: F401\n\n"
        "from keyfold.project import project_jobs\nfrom keyfold.testing import assert_rows\n\n"
        f"PARAMETERS = {_literal(dict(job.parameters))}\n\nBATCHES = {_literal(played)}\n\nROWS = {_literal(expected)}\n\n\n"
        f"def test_rows_of_{name}():\n"
        f"    job = project_jobs({repr(module) if module else ''})[{job.name!r}]\n"
        f"    assert_rows(job, {table!r}, BATCHES, ROWS, PARAMETERS)\n"
    )


def _without_private(job: KeyedJob, events: pl.DataFrame) -> pl.DataFrame:
    """Replace private texts and numbers by others, the same for the same; other private values are NULL."""
    private = [name for name in events.columns if name in job.private_of(job.columns)]
    texts = [name for name in private if events.schema[name] == pl.String]
    numbers = [name for name in private if events.schema[name].is_numeric()]
    others = [name for name in private if name not in (*texts, *numbers)]
    if fixed := [name for name in others if not job.columns.field(name).nullable or name == job.event_time]:
        raise InvalidData(f"no test can be written: {', '.join(fixed)} is private, and an event must have it")
    by_text, by_number = (
        {value: rank for rank, value in enumerate(dict.fromkeys(_values(events, names)), 1)}
        for names in (texts, numbers)
    )
    return events.with_columns(
        *(
            pl.Series(name, [_other(by_text, value, "private-{}") for value in events[name]], pl.String)
            for name in texts
        ),
        *(
            pl.Series(name, [by_number.get(value) for value in events[name]]).cast(events.schema[name])
            for name in numbers
        ),
        *(pl.lit(None, events.schema[name]).alias(name) for name in others),
    )


def _values(events: pl.DataFrame, names: Sequence[str]) -> Iterator[Any]:
    return (value for name in names for value in events[name] if value is not None)


def _other(ranks: Mapping[Any, int], value: Any, form: str) -> str | None:
    return None if value is None else form.format(ranks[value])


def _rows_of_lookup(job: KeyedJob, name: str, rows: pl.DataFrame) -> list[dict[str, Any]]:
    if rows.height > _MOST_ROWS or job.lookups[name].private:
        fault = "has private columns" if job.lookups[name].private else f"has {rows.height:,} rows"
        raise InvalidData(
            f"no test can be written: lookup {name} {fault}, of which a test has {_MOST_ROWS:,} at most, and no private ones"
        )
    return rows.to_dicts()


def _literal(value: Any) -> str:
    return pformat(_plain(value), width=120, sort_dicts=False)


def _plain(value: Any) -> Any:
    """Return values as they are written in Python: times with the zone that `datetime` has by itself."""
    if isinstance(value, Mapping):
        return {name: _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
