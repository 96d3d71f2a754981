"""Definitions that need what they call Spark, which is a word here: what is reported is all there is to look at."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from keyfold.dagster.assets.metadata import last_materialization
from keyfold.dagster.quality.checks import SCOPE_TAG
from keyfold.errors import KeyfoldError

EVENTS, COUNTS, LATE = dg.AssetKey("events"), dg.AssetKey("counts"), dg.AssetKey("counts_late")


class CountConfig(dg.Config):
    """What a test asks for."""

    do: str = "count"
    told: str = ""


@dg.multi_asset(
    name="count",
    specs=[
        dg.AssetSpec(COUNTS, deps=[EVENTS], skippable=True, group_name="counted"),
        dg.AssetSpec(LATE, deps=[EVENTS], skippable=True, group_name="counted"),
    ],
    pool="job_counts",
)
def count(
    context: dg.AssetExecutionContext, config: CountConfig, spark: dg.ResourceParam[str]
) -> Iterator[dg.MaterializeResult]:
    """Report every kind of metadata, or fail or wait or look, as asked."""
    context.log.warning(f"{spark} counts")
    if config.do == "observe":
        context.log_event(dg.AssetObservation(COUNTS, metadata={"branch": "trial"}))
        return
    if config.do == "fail":
        raise KeyfoldError(f"no count: {os.environ.get('A_SECRET_OF_SPARK', 'set it')} does not open")
    if config.do == "die":
        print("the machine has no memory", flush=True)
        os._exit(137)
    if config.do == "wait":
        try:
            Path(config.told).write_text(str(os.getpid()))
            time.sleep(600)
        finally:
            Path(config.told).write_text("ended")
    before = last_materialization(context.instance, COUNTS)
    seen = int(str(before.metadata["keyfold/batch"].value)) if before else 0
    yield dg.MaterializeResult(asset_key=COUNTS, metadata={**METADATA, "keyfold/batch": seen + 1})
    yield dg.MaterializeResult(asset_key=LATE, metadata={"rows_out": 0})


METADATA: dict[str, Any] = {
    "rows_out": 3,
    "seconds": 0.25,
    "is_new": True,
    "note": "of a test",
    "nothing": dg.MetadataValue.null(),
    "watermark": dg.MetadataValue.timestamp(1_700_000_000.5),
    "plot": dg.MetadataValue.md("![a picture](data:image/png;base64,AAAA)"),
    "uri": dg.MetadataValue.url("http://127.0.0.1/"),
    "path": dg.MetadataValue.path("/somewhere/else"),
    "batch_seconds": dg.MetadataValue.json([0.1, 0.15]),
    "preview": dg.MetadataValue.table(
        [dg.TableRecord({"key": "a", "n": "3"})], dg.TableSchema([dg.TableColumn("key"), dg.TableColumn("n")])
    ),
    "dagster/column_schema": dg.TableSchema(
        [
            dg.TableColumn(
                "n", "int64", "How many.", dg.TableColumnConstraints(nullable=False, unique=True), {"unit": "rows"}
            )
        ]
    ),
    "dagster/column_lineage": dg.TableColumnLineage(
        {"n": [dg.TableColumnDep(asset_key=dg.AssetKey("events"), column_name="id")]}
    ),
}


@dg.asset_check(asset=COUNTS, name="counts_add_up", blocking=True, pool="job_counts")
def counts_add_up(context: dg.AssetCheckExecutionContext, spark: dg.ResourceParam[str]) -> dg.AssetCheckResult:
    """Fail where a variable says so, with a description and metadata."""
    passed = "COUNTS_ARE_WRONG" not in os.environ
    return dg.AssetCheckResult(
        passed=passed,
        description=f"3 = 3 by {spark}" if passed else "3 ≠ 2",
        metadata={"scope": context.run.tags.get(SCOPE_TAG, "incremental"), "run": context.run.run_id},
    )


@dg.asset_check(asset=COUNTS, name="counts_are_small")
def counts_are_small(spark: dg.ResourceParam[str]) -> dg.AssetCheckResult:
    """Warn."""
    return dg.AssetCheckResult(passed=False, severity=dg.AssetCheckSeverity.WARN, metadata={"spark": spark})


@dg.asset(deps=[COUNTS])
def after_counts() -> None:
    """What is built on the counts; it needs no Spark."""


@dg.asset_check(asset=COUNTS, name="counts_are_fresh")
def counts_are_fresh() -> dg.AssetCheckResult:
    """Need no Spark."""
    return dg.AssetCheckResult(passed=True, metadata={"process": os.getpid()})


ASSETS: list[Any] = [dg.AssetSpec(EVENTS), count, after_counts]
CHECKS = [counts_add_up, counts_are_small, counts_are_fresh]

defs = dg.Definitions(
    assets=ASSETS, asset_checks=CHECKS, resources={"spark": dg.ResourceDefinition.hardcoded_resource("a word")}
)
