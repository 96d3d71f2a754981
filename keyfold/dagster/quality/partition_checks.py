"""Evaluate a suite on each partition of a table, as Dagster's partitioned checks (from Dagster 1.13 on).

A run that is not of partitions has only evaluations of what it has written: of a partition, Dagster keeps them of runs of this
partition alone. Its automation condition starts such a run of the checks when a partition is complete or has changed, and a backfill has
them in its own run. An evaluation names the materialization that it is of, by which Dagster knows whether the newest one has passed.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_type_hints

import dagster as dg
import polars as pl

from keyfold.dagster.quality.asset_checks import SuiteChecks

ARE_SUPPORTED = "partitions_def" in inspect.signature(dg.AssetCheckSpec).parameters
"""Whether the version of Dagster has checks of partitions."""

ReadPartition = Callable[[dg.AssetCheckExecutionContext, str], pl.LazyFrame]
"""Scans the rows of the partition with a key, with all columns."""


def partition_checks(
    suite: SuiteChecks, read: ReadPartition, *, required_resource_keys: set[str], pool: str
) -> dg.AssetChecksDefinition:
    """Build the checks of an asset with partitions from a suite that has them (`SuiteChecks.partitions`); one step evaluates all.

    Args:
        suite: the suite.
        read: scans the rows of a partition.
        required_resource_keys: resources that `read` and the suite find in `context.resources`.
        pool: the pool of the step that writes the table.
    """

    @dg.multi_asset_check(
        name=f"{'__'.join(suite.asset.path)}_expectations",
        specs=suite.specs,
        can_subset=True,
        required_resource_keys=required_resource_keys,
        pool=pool,
        description=f"Great Expectations suite of {suite.asset.to_user_string()}, of what a run has written and of each partition.",
    )
    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterator[Any]:
        keys = _keys_of_run(context, suite)
        for key in keys:
            record = _newest(context, dg.AssetRecordsFilter(suite.asset, asset_partitions=[key]))
            yield from _evaluations(suite.evaluate_rows(context, read(context, key)), key, record)
        if not keys:
            yield from _evaluations(suite.evaluate(context), None, _newest(context, suite.asset))
        for name in context.op_execution_context.selected_output_names:
            yield dg.Output(None, name)

    return evaluate


def when_updated() -> dg.AutomationCondition[Any]:
    """Evaluate a check of a partition when the partition was materialized, whichever run did."""
    updated = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.newly_updated())
    in_progress = dg.AutomationCondition.any_deps_in_progress() | dg.AutomationCondition.in_progress()
    # Not since the last evaluation: that of a run without partitions counts as one of each.
    handled = dg.AutomationCondition.newly_requested() | dg.AutomationCondition.initial_evaluation()
    return (updated.since(handled) & ~in_progress).with_label("partition_was_materialized")


def _keys_of_run(context: dg.AssetCheckExecutionContext, suite: SuiteChecks) -> Sequence[str]:
    """Return the partitions that a run is of; none of a run without partitions."""
    run: Any = context.op_execution_context
    if suite.partitions is None or not (run.has_partition_key or run.has_partition_key_range):
        return ()
    partitions: Any = suite.partitions
    return partitions.get_partition_keys_in_range(run.partition_key_range)


def _newest(
    context: dg.AssetCheckExecutionContext, records: dg.AssetKey | dg.AssetRecordsFilter
) -> dg.EventLogRecord | None:
    return next(iter(context.instance.fetch_materializations(records, limit=1).records), None)


def _evaluations(
    results: Iterator[dg.AssetCheckResult], partition: str | None, record: dg.EventLogRecord | None
) -> Iterator[dg.AssetCheckEvaluation]:
    for result in results:
        assert result.asset_key is not None and result.check_name is not None  # noqa: S101, PT018 - a suite names them
        of_partition: Mapping[str, Any] = {"partition": partition}
        yield dg.AssetCheckEvaluation(
            asset_key=result.asset_key,
            check_name=result.check_name,
            passed=result.passed,
            metadata=result.metadata,
            target_materialization_data=_target(record),
            severity=result.severity,
            description=result.description,
            # An error of a check that does not block is a warning.
            blocking=result.severity is dg.AssetCheckSeverity.ERROR,
            **of_partition,
        )


def _target(record: dg.EventLogRecord | None) -> Any:
    """Return what names a materialization in an evaluation, of a type that Dagster does not export."""
    if record is None:
        return None
    (target_type, _) = get_args(get_type_hints(dg.AssetCheckEvaluation)["target_materialization_data"])
    return target_type(storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp)
