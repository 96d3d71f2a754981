"""Replace assets that need Spark, with their checks, by steps that launch a child process.

A step has the keys, checks, config, pool, name and reports of the definitions that it replaces, which the child process
executes. Two things differ. A table and its checks are one step, so that one Spark session serves both. Checks can be selected
alone (nightly scans), so a selection may also name only some of a step's tables; the step then still writes and reports all
of them.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import dagster as dg

from keyfold.dagster.assets.metadata import last_materialization
from keyfold.dagster.submitted.launching import Launcher, run_child, spark_submit_launcher
from keyfold.dagster.submitted.setting import is_submitted
from keyfold.session import SparkSettings

_SPARK = "spark"
_OWN_METADATA = "keyfold/"
_OF_DAGSTER = ("dagster/", ".dagster/")

Assets = list[dg.AssetsDefinition | dg.AssetSpec]
Checks = list[dg.AssetChecksDefinition]


def as_set(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    checks: Sequence[dg.AssetChecksDefinition],
    *,
    module: str,
    settings: Callable[[], SparkSettings],
    environment: Mapping[str, str] = os.environ,
) -> tuple[Assets, Checks]:
    """Return the definitions unchanged, or, as KEYFOLD_RUNS says, with steps that submit those that need Spark.

    Args:
        module: the module that has the definitions as `defs`, for the child process.
        settings: returns the settings of the Spark session; called when a step begins.

    Raises:
        KeyfoldError: as `is_submitted`.
    """
    if not is_submitted(environment):
        return list(assets), list(checks)
    return submitted(assets, checks, module=module, launcher=spark_submit_launcher(settings))


def submitted(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    checks: Sequence[dg.AssetChecksDefinition],
    *,
    module: str,
    launcher: Launcher,
) -> tuple[Assets, Checks]:
    """Replace the assets that need Spark by steps that launch a process; the returned checks lack those of such steps.

    Args:
        module: the module that has the definitions as `defs`, for the child process.
        launcher: builds the launch.

    Example:
        >>> assets, checks = submitted([rides], [no_ride_is_lost], module="mine", launcher=launcher)  # doctest: +SKIP
    """
    steps, other_checks = Assets(), list(checks)
    for asset in assets:
        if not isinstance(asset, dg.AssetsDefinition) or not _needs_spark(asset):
            steps.append(asset)
            continue
        own = [
            check
            for check in other_checks
            if _needs_spark(check) and {key.asset_key for key in check.check_keys} <= asset.keys
        ]
        other_checks = [check for check in other_checks if check not in own]
        steps.append(_launching_step(asset, own, module, launcher))
    return steps, other_checks


def _needs_spark(definition: dg.AssetsDefinition) -> bool:
    return _SPARK in definition.required_resource_keys


def _launching_step(
    asset: dg.AssetsDefinition, checks: Sequence[dg.AssetChecksDefinition], module: str, launcher: Launcher
) -> dg.AssetsDefinition:
    step = asset.op

    @dg.multi_asset(
        name=step.name,
        specs=list(asset.specs),
        check_specs=[*asset.check_specs, *(spec for check in checks for spec in check.check_specs)],
        config_schema=_config_fields(asset),
        pool=step.pool,
        op_tags={**step.tags},
        description=step.description,
        # Without this, Dagster could not select checks without all tables.
        can_subset=True,
    )
    def submit(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        selected = context.selected_asset_keys
        for result in run_child(context, launcher, _task(context, asset, module)):
            if isinstance(result, dg.AssetObservation):
                context.log_event(result)
            elif isinstance(result, dg.MaterializeResult) and (key := result.asset_key) and key not in selected:
                context.log_event(dg.AssetMaterialization(key, metadata=result.metadata))
            else:
                yield result

    return submit


def _config_fields(asset: dg.AssetsDefinition) -> dict[str, Any] | None:
    kind: Any = asset.op.config_schema.config_type if asset.op.has_config_field else None
    return dict(kind.fields) if isinstance(kind, dg.Shape) else None


def _task(context: dg.AssetExecutionContext, asset: dg.AssetsDefinition, module: str) -> dict[str, Any]:
    """Return the fields of `child.Task`."""
    config = cast(dict[str, Any] | None, context.op_execution_context.op_config)
    run_config = cast(dict[str, Any], context.run.run_config)
    return {
        "module": module,
        "step": asset.op.name,
        "assets": [key.to_escaped_user_string() for key in asset.keys] if context.selected_asset_keys else [],
        "checks": [(key.asset_key.to_escaped_user_string(), key.name) for key in context.selected_asset_check_keys],
        "config": config or {},
        # spark-submit has already got Spark's settings.
        "resources": {name: value for name, value in run_config.get("resources", {}).items() if name != _SPARK},
        "tags": {name: value for name, value in context.run.tags.items() if not name.startswith(_OF_DAGSTER)},
        "before": [
            dg.serialize_value(_without_pictures(made))
            for key in asset.keys
            if (made := last_materialization(context.instance, key)) is not None
        ],
    }


def _without_pictures(made: dg.AssetMaterialization) -> dg.AssetMaterialization:
    own = {name: value for name, value in made.metadata.items() if name.startswith(_OWN_METADATA)}
    return dg.AssetMaterialization(made.asset_key, metadata=own)
