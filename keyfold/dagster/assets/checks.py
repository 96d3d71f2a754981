"""Evaluate all checks of an asset in one step: a step costs a process under Dagster's default executor, and seconds of it.

A check that cannot be evaluated does not keep the others from being evaluated; the step fails after them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from keyfold.dagster.failures import fails_with_message
from keyfold.dagster.quality.asset_checks import SuiteChecks
from keyfold.dagster.resources import Keyfold
from keyfold.lakehouse import Lakehouse

WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR


@dataclass(frozen=True)
class Finding:
    """What a check found.

    Attributes:
        passed: whether the check passed.
        description: what was found, for people, whether it passed or not.
        metadata: what Dagster shows beside it.
        severity: of a check that failed.
    """

    passed: bool
    description: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    severity: dg.AssetCheckSeverity = WARN


@dataclass(frozen=True)
class Check:
    """A check of a lakehouse's stream or job.

    Attributes:
        name: the check's name.
        description: what it checks.
        evaluate: evaluates it.
        blocking: whether a failure, if it is an error, keeps downstream assets from being materialized in the same run.
    """

    name: str
    description: str
    evaluate: Callable[[Lakehouse], Finding]
    blocking: bool = False


def asset_checks(
    asset: dg.AssetKey, checks: Sequence[Check] = (), suite: SuiteChecks | None = None, *, pool: str
) -> dg.AssetChecksDefinition:
    """Build the checks of an asset, which one step evaluates.

    Args:
        asset: the asset.
        checks: Keyfold's checks.
        suite: a suite of expectations on the asset's table.
        pool: the pool of the step that writes the table, so that it is not written meanwhile.
    """
    specs = [
        dg.AssetCheckSpec(check.name, asset=asset, description=check.description, blocking=check.blocking)
        for check in checks
    ]

    @dg.multi_asset_check(
        name=f"{'__'.join(asset.path)}_checks",
        specs=[*specs, *(suite.specs if suite else ())],
        can_subset=True,
        pool=pool,
        description=f"Checks of {asset.to_user_string()}.",
    )
    @fails_with_message
    def evaluate(
        context: dg.AssetCheckExecutionContext, keyfold: dg.ResourceParam[Keyfold]
    ) -> Iterator[dg.AssetCheckResult]:
        selected = context.selected_asset_check_keys
        faults = list[Exception]()
        for check in checks:
            if dg.AssetCheckKey(asset, check.name) not in selected:
                continue
            try:
                finding = check.evaluate(keyfold.lakehouse)
            except Exception as error:  # raised below, after the other checks
                context.log.warning(f"{check.name} could not be evaluated: {error}")
                faults.append(error)
            else:
                yield dg.AssetCheckResult(
                    passed=finding.passed,
                    asset_key=asset,
                    check_name=check.name,
                    severity=finding.severity,
                    description=finding.description,
                    metadata=finding.metadata,
                )
        if suite is not None:
            yield from suite.evaluate(context)
        if faults:
            raise faults[0]

    return evaluate
