"""Build the assets of a stream (landing folder, event table, quarantine) and the check that no row was lost."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

import dagster as dg
from deltalake import DeltaTable
from pydantic import BaseModel, ConfigDict, Field

from keyfold import ingestion, runs
from keyfold.dagster.assets.metadata import column_schema, table_metadata, warning_metadata
from keyfold.dagster.assets.previews import preview, quarantine_metadata
from keyfold.dagster.failures import fails_with_message
from keyfold.dagster.maintenance import maintain_stream
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.run_config import checked, plain_fields
from keyfold.dagster.run_reports import is_left_to_continuous_run
from keyfold.dagster.translator import DEFAULT, STREAM_TAG, KeyfoldTranslator, described
from keyfold.errors import NotFound
from keyfold.ingestion.ingest_settings import QUARANTINE
from keyfold.ingestion.kafka.kafka_settings import kafka_topics
from keyfold.ingestion.landing import find_landing
from keyfold.ingestion.listing import SETTLE
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.presence import absent_files
from keyfold.lakehouse.reading import count_rows
from keyfold.lakehouse.row_erasure import erased_rows
from keyfold.storage.place import Place
from keyfold.stream import Stream


class IngestConfig(BaseModel):
    """Run config of an event table. Only the environment sets what is read: a run may not name a path."""

    model_config = ConfigDict(extra="forbid")

    start: str | None = Field(
        default=None,
        description="Where the first run reads a topic from: earliest (default), latest, or an ISO 8601 time.",
    )
    on_gap: str | None = Field(
        default=None,
        description="How to treat messages that expired unread: fail (error, default), or write a row to quarantine (record).",
    )
    topic_anew: bool = Field(
        default=False,
        description="Read a topic that was deleted and recreated, or truncated, from its beginning.",
    )
    settle_seconds: float = Field(
        default=SETTLE.total_seconds(),
        ge=0,
        description="Seconds that a file must be unchanged before it is read; 0 if no file is being written. "
        "Ignored for a stream with done-markers.",
    )
    reread_changed: bool = Field(
        default=False,
        description="Read changed files again. Rows that are already in the tables are dropped by their event ids; a stream "
        "without an event id is refused.",
    )


def stream_assets(stream: Stream, translator: KeyfoldTranslator = DEFAULT) -> tuple[dg.AssetSpec, dg.AssetsDefinition]:
    """Build the asset of the landing folder or topic (external) and the asset of the tables that ingest writes.

    Args:
        stream: the stream of the files or messages.
        translator: names and describes the assets.
    """
    topic = kafka_topics().get(stream.name)
    landing = described(
        translator,
        dg.AssetSpec(
            translator.get_asset_key(f"landing.{stream.name}"),
            description=f"Messages of `{stream.name}` (JSON objects) in the Kafka topic `{topic}`."
            if topic
            else f"Files of `{stream.name}` in `landing/{stream.name}` (NDJSON, CSV or Parquet; .gz too). Each file is read once: "
            "write it under a name that begins with a dot, then rename it.",
            kinds={"kafka" if topic else "file"},
            tags={STREAM_TAG: stream.name},
        ),
    )

    @dg.multi_asset(
        name=f"ingest_{stream.name}",
        specs=_specs(stream, landing.key, translator),
        pool=f"stream_{stream.name}",
        config_schema=plain_fields(IngestConfig),
        description=f"Reads the new files or messages of {stream.name}, exactly once.",
    )
    @fails_with_message
    def ingest_stream(
        context: dg.AssetExecutionContext, keyfold: dg.ResourceParam[Keyfold]
    ) -> Iterator[dg.MaterializeResult]:
        lakehouse = keyfold.lakehouse
        if is_left_to_continuous_run(context, lakehouse.ingest(stream.name)):
            maintain_stream(context, lakehouse, stream, translator)
            return
        config = checked(IngestConfig, context.op_execution_context.op_config, f"ops: ingest_{stream.name}")
        landing = find_landing(stream.name, start=config.start, on_gap=config.on_gap, anew=config.topic_anew)
        settle = timedelta(seconds=config.settle_seconds)
        summary = runs.ingest(
            lakehouse,
            stream,
            landing,
            settle=settle,
            reread_changed=config.reread_changed,
            on_batch=lambda progress: context.log.info(progress.describe()),
            runners=keyfold.runners,
        )
        warnings = summary.describe()
        for line in warnings:
            context.log.warning(line)
        yield from _results(lakehouse, stream, summary, warnings, translator)
        maintain_stream(context, lakehouse, stream, translator)

    return landing, ingest_stream


def _specs(stream: Stream, landing: dg.AssetKey, translator: KeyfoldTranslator) -> list[dg.AssetSpec]:
    """Return the specs of the tables that ingest writes for a stream."""
    tables = {
        f"events.{stream.name}": (
            stream.description or f"Valid, typed events of `{stream.name}`.",
            stream.event_schema,
        ),
        f"quarantine.{stream.name}": (
            f"Invalid rows and unreadable files of `{stream.name}`: the raw line, its file and line number, and the reason.",
            QUARANTINE,
        ),
    }
    return [
        described(
            translator,
            dg.AssetSpec(
                translator.get_asset_key(name),
                deps=[landing],
                description=description,
                kinds={"pyspark", "deltalake"},
                # A run that leaves the stream to a continuous one writes nothing.
                skippable=True,
                tags={STREAM_TAG: stream.name},
                metadata={"dagster/table_name": name, "dagster/column_schema": column_schema(schema)},
            ),
        )
        for name, (description, schema) in tables.items()
    ]


def _results(
    lakehouse: Lakehouse,
    stream: Stream,
    summary: "ingestion.IngestSummary",
    warnings: Sequence[str],
    translator: KeyfoldTranslator,
) -> Iterator[dg.MaterializeResult]:
    accepted, rejected = lakehouse.events(stream.name), lakehouse.quarantine(stream.name)
    yield dg.MaterializeResult(
        asset_key=translator.get_asset_key(f"events.{stream.name}"),
        metadata={
            **table_metadata(accepted),
            "preview": preview(accepted, stream.private),
            "source": summary.source,
            "files": summary.files,
            "files_waiting": summary.waiting,
            "files_changed": len(summary.changed),
            "rows_read": summary.rows_read,
            "accepted": summary.accepted,
            "quarantined": summary.quarantined,
            "duplicates": summary.duplicates,
            **({"without_a_time": summary.untimed} if stream.missing_time == "arrival" else {}),
            "seconds": round(summary.seconds, 2),
            **warning_metadata(warnings),
        },
    )
    yield dg.MaterializeResult(
        asset_key=translator.get_asset_key(f"quarantine.{stream.name}"),
        metadata={
            **table_metadata(rejected),
            **quarantine_metadata(rejected, stream),
        },
    )


def stream_check(stream: Stream, translator: KeyfoldTranslator = DEFAULT) -> dg.AssetChecksDefinition:
    """Build the blocking check that every row read is in the event table, in quarantine, or a counted duplicate."""

    @dg.asset_check(
        asset=translator.get_asset_key(f"events.{stream.name}"),
        name="every_row_is_accounted_for",
        description="Rows read = rows in the event table + rows in quarantine + dropped duplicates. The journal has the counts "
        "of rows read and duplicates; the other two are counted in the tables.",
        blocking=True,
        pool=f"stream_{stream.name}",
    )
    @fails_with_message
    def every_row_is_accounted_for(keyfold: dg.ResourceParam[Keyfold]) -> dg.AssetCheckResult:
        lakehouse = keyfold.lakehouse
        # A missing table is an error, not a failed check: the check cannot be evaluated.
        tables = [lakehouse.events(stream.name), lakehouse.quarantine(stream.name)]
        for table in tables:
            _require(table)
        # All counts are of the same batch, since ingest may run meanwhile.
        found = ingestion.settled_tables(lakehouse, stream.name)
        totals = found.done.totals if found else ingestion.IngestCounts()
        versions = [found.tables[name].version() if found else None for name in ("events", "quarantine")]
        accepted, quarantined = (_rows(table, version) for table, version in zip(tables, versions, strict=True))
        faults = [
            f"{there:,} rows are in {table}, but {counted:,} were counted"
            for table, there, counted in (
                (f"events.{stream.name}", accepted, totals.accepted),
                (f"quarantine.{stream.name}", quarantined, totals.quarantined),
            )
            if there != counted
        ]
        for table, version in zip(tables, versions, strict=True):
            # The table's log also counts the rows of files that are missing.
            absent = absent_files(table, DeltaTable(str(table), version=version))
            faults += [f"{table / path} {what}: restore it from a backup" for path, what in absent.items()]
        parts = accepted + quarantined + totals.duplicates
        if totals.rows_read != parts:
            faults.append(
                f"{totals.rows_read:,} rows were read, but {accepted:,} + {quarantined:,} are in the tables and "
                f"{totals.duplicates:,} were duplicates"
            )
        if faults and ingestion.is_unfinished(lakehouse, stream.name):
            faults.append("the last run of ingest was interrupted: the next run finishes it")
        passed = f"all {totals.rows_read:,} rows read are accounted for" if totals.rows_read else "no rows read yet"
        return dg.AssetCheckResult(
            passed=not faults,
            severity=dg.AssetCheckSeverity.ERROR,
            description="; ".join(faults) or passed,
            metadata={
                "rows_read": totals.rows_read,
                "in_events": accepted,
                "in_quarantine": quarantined,
                "duplicates": totals.duplicates,
            },
        )

    return every_row_is_accounted_for


def _require(table: Place) -> None:
    if not DeltaTable.is_deltatable(str(table)):
        raise NotFound(f"{table} does not exist; materialize the event table first")


def _rows(table: Place, version: int | None) -> int:
    """Count the rows of a table's version, including rows erased by `keyfold erase`."""
    return count_rows(table, version) + erased_rows(table)
