"""Definitions with a job that fails, a check that does, and the sensors that send alerts."""

import dagster as dg

from keyfold.dagster.alerts import alert_sensors


@dg.asset
def totals() -> None: ...


@dg.asset_check(asset=totals)
def adds_up() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=False, description="3 rows lack")


@dg.op
def step() -> None:
    raise RuntimeError("SECRET")


@dg.job(executor_def=dg.in_process_executor)
def rides() -> None:
    step()


defs = dg.Definitions(assets=[totals], asset_checks=[adds_up], jobs=[rides], sensors=alert_sensors())
