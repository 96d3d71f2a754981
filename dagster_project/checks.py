"""Great Expectations 1.x as Dagster asset checks: one check an expectation, one read of the table for all.

Imports nothing of this project, so that it can be lifted out as it is.

- `critical` becomes ERROR and blocks what is downstream; `warning` and `info` become WARN, which never blocks.
- An expectation that could not be evaluated (a column is missing, a query is wrong) fails and says so: that is a fault
  of the check or the schema, and must not be read as bad rows.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from pyspark.sql import DataFrame

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult
    from great_expectations.expectations import Expectation

_SAMPLE = 10
_NAME = "dagster_check"
"""Key in an expectation's `meta`: results come back in another order than the suite's."""


def gx_checks(
    asset: dg.AssetKey,
    expectations: Mapping[str, "Expectation"],
    read: Callable[[dg.AssetCheckExecutionContext], DataFrame],
    *,
    required_resource_keys: set[str],
) -> dg.AssetChecksDefinition:
    """Asset checks of expectations on a table.

    Args:
        asset: the asset that they check.
        expectations: by check name.
        read: gives the table as a (not streaming) frame; called once in a run, with the checks' context.
        required_resource_keys: resources that `read` finds in `context.resources`.
    """
    specs = [_spec(asset, name, expectation) for name, expectation in expectations.items()]

    @dg.multi_asset_check(
        name=f"{'__'.join(asset.path)}_expectations",
        specs=specs,
        can_subset=True,
        required_resource_keys=required_resource_keys,
        description=f"Great Expectations suite of {asset.to_user_string()}",
    )
    def evaluate(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {key.name for key in context.selected_asset_check_keys}
        chosen = {name: expectation for name, expectation in expectations.items() if name in wanted}
        frame = read(context).persist()
        try:
            results = {
                result.expectation_config.meta[_NAME]: result
                for result in validate(frame, chosen).results
                if result.expectation_config
            }
        finally:
            frame.unpersist()
        for spec in specs:
            if spec.name in wanted:
                yield _check_result(spec, chosen[spec.name], results.get(spec.name))

    return evaluate


def validate(frame: DataFrame, expectations: Mapping[str, "Expectation"]) -> "ExpectationSuiteValidationResult":
    """Validate a frame in the Spark session it has; nothing is kept, printed or sent anywhere."""
    # Before the import: it is read then. Settings made by the user win.
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations as gx  # noqa: PLC0415 - takes seconds
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    # persist=False: else the frame stays cached for good. No spark_config: it could restart the session.
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("table")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch(batch_parameters={"dataframe": frame})
    named = [
        expectation.copy(update={"meta": {**(expectation.meta or {}), _NAME: name}, "id": None})
        for name, expectation in expectations.items()
    ]
    # SUMMARY: COMPLETE would collect every bad row on the driver.
    return batch.validate(gx.ExpectationSuite(name="suite", expectations=named), result_format="SUMMARY")


def _spec(asset: dg.AssetKey, name: str, expectation: "Expectation") -> dg.AssetCheckSpec:
    kind = type(expectation).__name__
    return dg.AssetCheckSpec(
        name,
        asset=asset,
        blocking=_severity(expectation) is dg.AssetCheckSeverity.ERROR,
        description=expectation.description or kind,
        metadata={"expectation": kind, "severity": expectation.severity.value},
    )


def _severity(expectation: "Expectation") -> dg.AssetCheckSeverity:
    critical = expectation.severity.value == "critical"
    return dg.AssetCheckSeverity.ERROR if critical else dg.AssetCheckSeverity.WARN


def _check_result(
    spec: dg.AssetCheckSpec, expectation: "Expectation", result: "ExpectationValidationResult | None"
) -> dg.AssetCheckResult:
    trouble = "Great Expectations gave no result" if result is None else _exception(result.exception_info)
    found: dict[str, Any] = (result.result if result is not None else None) or {}
    if trouble:
        description = f"could not be evaluated: {trouble}"
    elif result is not None and result.success:
        description = None
    else:
        description = _what_is_wrong(found)
    return dg.AssetCheckResult(
        # bool: of some expectations GX gives numpy's, which Dagster refuses.
        passed=result is not None and not trouble and bool(result.success),
        asset_key=spec.asset_key,
        check_name=spec.name,
        severity=_severity(expectation),
        description=description,
        metadata={"evaluated": not trouble, **_metadata(found)},
    )


def _exception(info: Mapping[str, Any] | None) -> str | None:
    """The message of what GX raised; it nests one record a metric where a metric failed, and else gives one flat."""
    if not info:
        return None
    records = [info] if "raised_exception" in info else list(info.values())
    messages = [str(record.get("exception_message")) for record in records if record.get("raised_exception")]
    return "; ".join(dict.fromkeys(messages)) or None


def _what_is_wrong(found: Mapping[str, Any]) -> str:
    if "unexpected_count" in found:
        share = found.get("unexpected_percent") or 0.0
        return f"{found['unexpected_count']:,} of {found['element_count']:,} rows are not so ({share:.3g} %)"
    if "observed_value" in found:
        return f"observed {found['observed_value']}"
    return "not so"


def _metadata(found: Mapping[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for key, name in (("element_count", "rows"), ("unexpected_count", "unexpected"), ("missing_count", "missing")):
        if key in found:
            metadata[name] = int(found[key])
    if found.get("unexpected_percent") is not None:
        metadata["unexpected_percent"] = float(found["unexpected_percent"])
    if sample := found.get("partial_unexpected_list"):
        metadata["sample"] = dg.MetadataValue.json([str(value) for value in sample[:_SAMPLE]])
    if "observed_value" in found:
        metadata["observed"] = str(found["observed_value"])
    return metadata
