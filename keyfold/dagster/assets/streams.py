"""Build the assets of a stream: its landing folder or topic, its event table and, where it is asked for, its quarantine table."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg
from pydantic import BaseModel, ConfigDict, Field

from keyfold import ingestion, runs
from keyfold.dagster.assets.metadata import (
    batch_metadata,
    column_schema,
    is_written,
    last_materialization,
    table_metadata,
    warning_metadata,
)
from keyfold.dagster.assets.previews import preview, quarantine_metadata
from keyfold.dagster.assets.shown import StreamAssets
from keyfold.dagster.failures import fails_with_message
from keyfold.dagster.maintenance import maintain_stream
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.run_config import plain_fields
from keyfold.dagster.run_reports import is_left_to_continuous_run, report_materialization, report_observation
from keyfold.dagster.translator import DEFAULT, STREAM_TAG, KeyfoldTranslator, described
from keyfold.ingestion import ingest_journal
from keyfold.ingestion.ingest_settings import QUARANTINE
from keyfold.ingestion.kafka.kafka_settings import kafka_topics
from keyfold.ingestion.landing import find_landing
from keyfold.ingestion.listing import SETTLE
from keyfold.lakehouse import Lakehouse
from keyfold.validation import validated


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
    reset_topic: bool = Field(
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


def stream_assets(
    shown: StreamAssets, translator: KeyfoldTranslator = DEFAULT
) -> tuple[dg.AssetSpec, dg.AssetsDefinition]:
    """Build the asset of the landing folder or topic (external) and the assets of the tables that ingest writes.

    Args:
        shown: the stream of the files or messages.
        translator: names and describes the assets.
    """
    stream = shown.stream
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
        specs=_specs(shown, landing.key, translator),
        # Both tables are written in any case; so that Dagster does not ask for the other one.
        can_subset=True,
        pool=f"stream_{stream.name}",
        config_schema=plain_fields(IngestConfig),
        description=f"Reads the new files or messages of {stream.name}, exactly once.",
    )
    @fails_with_message
    def ingest_stream(
        context: dg.AssetExecutionContext, keyfold: dg.ResourceParam[Keyfold]
    ) -> Iterator[dg.MaterializeResult | dg.Output[None]]:
        lakehouse = keyfold.lakehouse
        if is_left_to_continuous_run(context, lakehouse.ingest(stream.name)):
            maintain_stream(context, lakehouse, stream, translator)
            return
        config = validated(
            IngestConfig, context.op_execution_context.op_config, f"ops: ingest_{stream.name}", quotes=False
        )
        landing = find_landing(stream.name, start=config.start, on_gap=config.on_gap, reset_topic=config.reset_topic)
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
        batch = ingest_journal(lakehouse, stream.name).last_done()
        for name, metadata in _metadata(lakehouse, shown, summary, warnings).items():
            key = translator.get_asset_key(name)
            before = last_materialization(context.instance, key)
            totals = summary.totals
            rows = totals.accepted if name == f"events.{stream.name}" else totals.quarantined
            records = batch_metadata("", batch.batch if batch else None, totals.rows_read, rows, before)
            if is_written(records, before):
                yield from report_materialization(context, key, {**metadata, **records})
            else:
                yield from report_observation(context, key, {**metadata, **records})
        maintain_stream(context, lakehouse, stream, translator)

    return landing, ingest_stream


def _specs(shown: StreamAssets, landing: dg.AssetKey, translator: KeyfoldTranslator) -> list[dg.AssetSpec]:
    """Return the specs of the tables that ingest writes for a stream."""
    stream = shown.stream
    events = (stream.description or f"Valid, typed events of `{stream.name}`.", stream.event_schema)
    quarantine = (
        f"Invalid rows and unreadable files of `{stream.name}`: the raw line, its file and line number, and the reason.",
        QUARANTINE,
    )
    tables = {f"events.{stream.name}": events}
    if shown.quarantine_asset:
        tables[f"quarantine.{stream.name}"] = quarantine
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


def _metadata(
    lakehouse: Lakehouse, shown: StreamAssets, summary: "ingestion.IngestSummary", warnings: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return the metadata of each table that is an asset: numbers that Dagster plots first, then a preview, then the rest."""
    stream = shown.stream
    accepted, rejected = lakehouse.events(stream.name), lakehouse.quarantine(stream.name)
    metadata: dict[str, dict[str, Any]] = {
        f"events.{stream.name}": {
            "accepted": summary.accepted,
            "rows_read": summary.rows_read,
            "quarantined": summary.quarantined,
            "duplicates": summary.duplicates,
            **({"without_a_time": summary.untimed} if stream.missing_time == "arrival" else {}),
            **warning_metadata(warnings),
            "preview": preview(accepted, stream.private),
            "source": summary.source,
            "files": f"{summary.files:,}",
            "files_waiting": f"{summary.waiting:,}",
            "files_changed": f"{len(summary.changed):,}",
            "seconds": f"{summary.seconds:.2f}",
            **table_metadata(accepted),
        }
    }
    if shown.quarantine_asset:
        metadata[f"quarantine.{stream.name}"] = {
            "quarantined": summary.quarantined,
            **quarantine_metadata(rejected, stream),
            **table_metadata(rejected),
        }
    return metadata
