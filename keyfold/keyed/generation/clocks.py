"""The clocks of all batches of a generation, by which the events of a key are played again (`runs.explaining`).

They are in the plans and commit records, and of older batches in an archive, which stays as long as the tables.

HOME/jobs/<job>/<generation>/clocks/           batches whose records are gone
HOME/jobs/<job>/<generation>/clocks/earlier/   batches of the generation that this one was moved from, with its tables
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from keyfold.journal.archive import add_to_archive, read_archive
from keyfold.journal.journal import Journal
from keyfold.keyed.generation.batch_records import KeyedDone, KeyedPlan
from keyfold.storage.place import Place
from keyfold.times import to_iso

_TIME = pl.Datetime("us", "UTC")
CLOCKS = "clocks"
EARLIER = "earlier"

SCHEMA = {
    "generation": pl.String,
    "batch": pl.Int64,
    "run": pl.Int64,
    "batches": pl.Int64,
    "since": _TIME,
    "until": _TIME,
    "previous_watermark": _TIME,
    "watermark": _TIME,
    "processing_time": _TIME,
    "advanced_by": pl.String,
    "runner": pl.String,
    "new_code": pl.String,
    "changed_state": pl.String,
    "is_replacement": pl.Boolean,
    "replaced_since": _TIME,
    "replaced_until": _TIME,
}
"""Columns of the clocks; besides, by name, `version TABLE`, `arrived TABLE`, `watermark INPUT` where it differs, and
`lookup LOOKUP`."""


def archive_clocks(folder: Place, batches: Sequence[tuple[KeyedPlan | None, KeyedDone]]) -> None:
    """Keep the clocks of batches whose records are about to be removed, in the folder of their generation."""
    rows = [_clock_of(plan, record) for plan, record in batches if plan is not None]
    if rows:
        add_to_archive(folder / CLOCKS, rows)


def clocks_of(folder: Place, journal: Journal[KeyedPlan, KeyedDone], name: str) -> pl.DataFrame:
    """Return the clocks of a generation's committed batches in order, those of the generation that it was moved from first.

    Raises:
        Damaged: a file of the archive is damaged.
    """
    records = [(journal.plan(batch), record) for batch in journal.kept() if (record := journal.done(batch)) is not None]
    recent = pl.DataFrame([_clock_of(plan, record) for plan, record in records if plan], infer_schema_length=None)
    archived = read_archive(folder / CLOCKS)
    archived_only = (
        archived
        if recent.is_empty()
        else archived.filter(pl.col("batch") < recent["batch"][0])
        if archived.height
        else archived
    )
    own = _typed(pl.concat([archived_only, recent], how="diagonal_relaxed")).with_columns(
        pl.lit(name).alias("generation")
    )
    return pl.concat([_typed(read_archive(folder / CLOCKS / EARLIER)), own], how="diagonal_relaxed")


def carry_clocks(clocks: pl.DataFrame, folder: Place) -> None:
    """Keep the clocks of a generation with the one that goes on with its tables."""
    if clocks.height:
        # The batches of two generations have the same numbers: they are numbered anew here, and named by `number`.
        numbered = clocks.rename({"batch": "number"}).with_row_index("batch").cast({"batch": pl.Int64})
        add_to_archive(folder / CLOCKS / EARLIER, numbered.to_dicts())


def _typed(clocks: pl.DataFrame) -> pl.DataFrame:
    if "number" in clocks.columns:
        clocks = clocks.drop("batch").rename({"number": "batch"})
    lacking = [pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name not in clocks.columns]
    typed = clocks.clear().with_columns(lacking) if clocks.is_empty() else clocks.with_columns(lacking)
    return typed.cast({**SCHEMA})


def _change_of_state(plan: KeyedPlan, record: KeyedDone) -> str:
    """Say what a batch did that read no events; empty for any other."""
    if record.replaced is not None:
        bounds = (to_iso(bound) if bound else "" for bound in (record.replaced.since, record.replaced.until))
        return f"rows from {' to '.join(bounds)} were computed again: {record.replaced.note}"
    return record.edited or (plan.seed.origin if plan.seed else "")


def _clock_of(plan: KeyedPlan, record: KeyedDone) -> Mapping[str, Any]:
    """Return the clock of a batch; what is not there has no column, so that it takes no bytes."""
    clock = plan.clock
    optional: dict[str, Any] = {
        "since": plan.since,
        "until": plan.until,
        "advanced_by": clock.advanced_by,
        "new_code": plan.new_code,
        "changed_state": _change_of_state(plan, record),
        "is_replacement": record.replaced is not None,
        "replaced_since": record.replaced and record.replaced.since,
        "replaced_until": record.replaced and record.replaced.until,
        **{f"lookup {name}": file for name, file in plan.lookups.items()},
    }
    others = {name: watermark for name, watermark in clock.watermarks.items() if watermark != clock.watermark}
    optional |= {f"watermark {name}": watermark for name, watermark in others.items()}
    arrivals: dict[str, datetime | None] = {f"arrived {input_.table}": input_.arrived for input_ in plan.inputs}
    return {
        "batch": plan.batch,
        "run": plan.run,
        "batches": plan.batches,
        "previous_watermark": clock.previous_watermark,
        "watermark": clock.watermark,
        "processing_time": clock.processing_time,
        # Its name: why the runner had the batch differs in each, and takes more bytes than all else.
        "runner": record.runner.partition(":")[0],
        **{f"version {input_.table}": input_.position.version for input_ in plan.inputs},
        **{name: value for name, value in (optional | arrivals).items() if value},
    }
