"""Show a job's open state on its asset's page: how many rows and keys, since when, and ten rows."""

from collections.abc import Mapping

import dagster as dg
import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from keyfold.dagster.assets.previews import ROWS, preview_rows
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.step import DEADLINE, STALE_AT
from keyfold.lakehouse import Lakehouse
from keyfold.state.reading.reader import read_state

MOST_BYTES = 64 << 20
"""Larger states are not read for metadata: it would delay every run."""


def open_state_metadata(
    log: dg.DagsterLogManager, spark: SparkSession, lakehouse: Lakehouse, job: KeyedJob
) -> Mapping[str, dg.MetadataValue]:
    """Read a job's state after its last batch, and return its metadata.

    Returns:
        `open_state_rows`, `open_state_keys`, `open_state_oldest` (UTC, the earliest event time in the state; missing if it has
        none) and `open_state` (ten rows; private columns are masked). For a state of more than 64 MiB, only its size. Nothing
        if the job has no state yet, or if it cannot be read: the tables are written, so this only warns.
    """
    live = live_generation(lakehouse, job.name)
    done = live.journal.last_done() if live else None
    if done is None:
        return {}
    if done.state_bytes > MOST_BYTES:
        size = f"{done.state_bytes >> 20:,} MiB: `keyfold state stats {job.name}` reads it"
        return {"open_state": dg.MetadataValue.text(size)}
    timers = (DEADLINE, STALE_AT)
    times = [one.name for one in job.state if pa.types.is_timestamp(one.type) and one.name not in timers]
    rows, keys, first, oldest = 0, 0, list[pl.DataFrame](), list[object]()
    try:
        # A frame has all rows of its keys.
        for frame in read_state(spark, lakehouse, job).frames():
            rows, keys = rows + frame.height, keys + frame.select(job.key).n_unique()
            oldest += [least for name in times if (least := frame[name].min()) is not None]
            if sum(one.height for one in first) < ROWS:
                first.append(frame.head(ROWS))
    except KeyfoldError as error:
        log.warning(f"the open state of {job.name} cannot be shown: {error}")
        return {}
    shown = pl.concat(first) if first else pl.DataFrame()
    return {
        "open_state_rows": dg.MetadataValue.int(rows),
        "open_state_keys": dg.MetadataValue.int(keys),
        **({"open_state_oldest": dg.MetadataValue.timestamp(min(oldest))} if oldest else {}),  # pyright: ignore
        "open_state": preview_rows(shown, job.private_of(job.state)),
    }
