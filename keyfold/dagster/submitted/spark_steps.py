"""Replace assets that need Spark, with their checks, by steps that launch a child process.

A step has the keys, checks, config, pool, name and reports of the definitions that it replaces, which the child process
executes. Two things differ. A table and its checks are one step, so that one Spark session serves both. Checks can be selected
alone (nightly scans), so a selection may also name only some of a step's tables; the step then still writes and reports all
of them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import dagster as dg

from keyfold.dagster.assets.metadata import last_materialization
from keyfold.dagster.submitted.launching import Command, run_child
from keyfold.session import SparkSettings
from keyfold.session.submitting import submit_command

_OF_DAGSTER = ("dagster/", ".dagster/")

Assets = list[dg.AssetsDefinition | dg.AssetSpec]
Checks = list[dg.AssetChecksDefinition]


def submitted(
    assets: Sequence[dg.AssetsDefinition | dg.AssetSpec],
    checks: Sequence[dg.AssetChecksDefinition],
    *,
    module: str,
    settings: Callable[[], SparkSettings],
    command: Command = submit_command,
) -> tuple[Assets, Checks]:
    """Replace the assets that need Spark by steps that launch a process; the returned checks lack those of such steps.

    Args:
        module: the module that has the definitions as `defs`, for the child process.
        settings: returns the settings of the Spark session; called when a step begins, which is when secrets are read.
        command: builds the command of the child process.

    Example:
        >>> assets, checks = submitted([rides], [no_ride_is_lost], module="mine", settings=settings)  # doctest: +SKIP
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
        steps.append(_launching_step(asset, own, module, settings, command))
    return steps, other_checks


def _needs_spark(definition: dg.AssetsDefinition) -> bool:
    return "spark" in definition.required_resource_keys


def _launching_step(
    asset: dg.AssetsDefinition,
    checks: Sequence[dg.AssetChecksDefinition],
    module: str,
    settings: Callable[[], SparkSettings],
    command: Command,
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
        for result in run_child(context, settings(), _task(context, asset, module), command):
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
    selection = dg.AssetSelection.checks(*context.selected_asset_check_keys)
    if context.selected_asset_keys:
        selection |= dg.AssetSelection.assets(*asset.keys).without_checks()
    config: Any = context.op_execution_context.op_config
    before = (last_materialization(context.instance, key) for key in asset.keys)
    return {
        "module": module,
        "selection": dg.serialize_value(selection),
        "run_config": {"ops": {asset.op.name: {"config": config}}} if context.selected_asset_keys and config else {},
        "tags": {name: value for name, value in context.run.tags.items() if not name.startswith(_OF_DAGSTER)},
        "before": [dg.serialize_value(made) for made in before if made is not None],
    }
