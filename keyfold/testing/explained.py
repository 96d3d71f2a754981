"""Assert the rows of a key, as `keyfold explain --as-test` writes it down."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import Clock
from keyfold.keyed.rows.codec import polars_schema


def assert_rows(
    job: KeyedJob,
    table: str,
    batches: Sequence[Mapping[str, Any]],
    rows: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Check that the batches of a key give rows of a table.

    Args:
        job: the job.
        table: one of its tables.
        batches: for each batch its `clock` (arguments of `Clock`), the `events`, in the columns `KeyedJob.columns`, and the rows of
            `lookups`, by name.
        rows: the rows, in any order.
        parameters: the parameters of the job, as its generation had them; those that it has no more count no more.

    Raises:
        AssertionError: the rows differ.
    """
    of_job = {name: value for name, value in (parameters or {}).items() if name in job.parameter_fields}
    job = build_job(job, of_job) if of_job else job
    harness = TestHarness(job)
    for batch in batches:
        kinds = {name: polars_schema(lookup.columns) for name, lookup in job.lookups.items()}
        lookups = {name: pl.DataFrame(list(batch["lookups"][name]), schema=kind) for name, kind in kinds.items()}
        events = pl.DataFrame(list(batch["events"]), schema=polars_schema(job.columns))
        harness.batch_at(Clock(**batch["clock"], lookups=lookups), events)
    written = harness.written[table]
    expected = pl.DataFrame(list(rows), schema=written.schema)
    assert_frame_equal(written, expected, check_row_order=False, check_exact=True)
