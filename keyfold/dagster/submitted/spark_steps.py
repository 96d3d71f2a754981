"""Assets that need Spark, each with its checks that do, as one step that launches a process.

Keys, checks, config, pools, names of steps and what is reported are those of the definitions that they stand for, which
the process executes. Two things differ: a table and its checks are one step, so that one Spark does for both; and since
checks are wanted alone too (the nightly scans), a selection may name some of a step's tables. All of them are written all
the same, and reported.
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
    """The definitions as they are, or with those that need Spark as steps that submit them, where KEYFOLD_RUNS asks for it.

    Args:
        assets: all of them.
        checks: all of them.
        module: that the process is to load them from, as `defs`.
        settings: gives those of its Spark session when a step begins.
        environment: the process's.

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
    """The definitions, with those that need Spark as steps that launch a process; checks that such a step holds are gone.

    Args:
        assets: all of them.
        checks: all of them.
        module: that the process is to load them from, as `defs`.
        launcher: says what to launch.

    Example:
        >>> assets, checks = submitted([rides], [no_ride_is_lost], module="mine", launcher=launcher)  # doctest: +SKIP
    """
    made, left = Assets(), list(checks)
    for asset in assets:
        if not isinstance(asset, dg.AssetsDefinition) or not _needs_spark(asset):
            made.append(asset)
            continue
        own = [
            check for check in left if _needs_spark(check) and {key.asset_key for key in check.check_keys} <= asset.keys
        ]
        left = [check for check in left if check not in own]
        made.append(_twin(asset, own, module, launcher))
    return made, left


def _needs_spark(definition: dg.AssetsDefinition) -> bool:
    return _SPARK in definition.required_resource_keys


def _twin(
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
        # Checks alone are wanted too, and without this Dagster would take them with all tables.
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
    """What `child.Task` wants."""
    config = cast(dict[str, Any] | None, context.op_execution_context.op_config)
    run_config = cast(dict[str, Any], context.run.run_config)
    return {
        "module": module,
        "step": asset.op.name,
        "assets": [key.to_escaped_user_string() for key in asset.keys] if context.selected_asset_keys else [],
        "checks": [(key.asset_key.to_escaped_user_string(), key.name) for key in context.selected_asset_check_keys],
        "config": config or {},
        # Spark's are spark-submit's by now.
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
