"""What the assets tell Dagster about their tables: places, counts, batches, warnings."""

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg
from deltalake import DeltaTable

from keyfold.lakehouse.reading import count_rows
from keyfold.storage.place import Place


def table_key(table: str) -> dg.AssetKey:
    """The asset key of a table: `late.ride_summaries` is `ride_summaries_late`.

    Not `late/ride_summaries`: the graph shows a key's last part alone.
    """
    return dg.AssetKey("_".join(reversed(table.split("."))))


def last_materialization(instance: dg.DagsterInstance, asset: dg.AssetKey) -> dg.AssetMaterialization | None:
    """The asset's last materialization, None before its first."""
    event = instance.get_latest_materialization_event(asset)
    return event.asset_materialization if event is not None else None


GENERATION = "keyfold/generation"
"""Metadata: the generation whose table it is."""
BATCH = "keyfold/batch"
"""Metadata: the newest batch of the generation once the run was over."""
SINCE_BATCH = "keyfold/since_batch"
"""Metadata: the newest batch that the materialization before told of; it is not there for a generation's first."""


@dataclass(frozen=True)
class WrittenBatches:
    """Batches that a materialization tells of: its own run's, and those that nobody has told of.

    The others are of runs that broke off and of the command line's; checks must see their rows too.

    Attributes:
        generation: of the job.
        since: the last batch before them.
        until: the last of them.
    """

    generation: str
    since: int
    until: int


def batch_metadata(
    generation: str, batch: int | None, before: dg.AssetMaterialization | None
) -> dict[str, dg.MetadataValue]:
    """What a materialization says of the batches that made it.

    Args:
        generation: of the job.
        batch: its newest one.
        before: the table's materialization before this one.
    """
    earlier = before.metadata if before is not None else {}
    is_same = GENERATION in earlier and earlier[GENERATION].value == generation
    return {
        GENERATION: dg.MetadataValue.text(generation),
        **({BATCH: dg.MetadataValue.int(batch)} if batch is not None else {}),
        **({SINCE_BATCH: earlier[BATCH]} if is_same and BATCH in earlier else {}),
    }


def written_batches(made: dg.AssetMaterialization | None) -> WrittenBatches | None:
    """The batches that a materialization tells of, None for a generation's first: it tells of the whole table."""
    told = made.metadata if made is not None else {}
    if not {GENERATION, BATCH, SINCE_BATCH} <= told.keys():
        return None
    generation, since, until = (str(told[name].value) for name in (GENERATION, SINCE_BATCH, BATCH))
    return WrittenBatches(generation, int(since), int(until))


def table_metadata(path: Place, preview: dg.MetadataValue) -> dict[str, dg.MetadataValue]:
    """Row count, place and version of a Delta table, read from its log, and a few of its rows (`previews`)."""
    return {
        "table_version": dg.MetadataValue.int(DeltaTable(str(path)).version()),
        "dagster/row_count": dg.MetadataValue.int(count_rows(path)),
        "dagster/uri": dg.MetadataValue.text(path.as_uri()),
        "preview": preview,
    }


def warning_metadata(warnings: Sequence[str]) -> dict[str, dg.MetadataValue]:
    """What a run warns of, a line each; as text, since names of files stand in it."""
    return {"warnings": dg.MetadataValue.text("\n".join(warnings))} if warnings else {}
