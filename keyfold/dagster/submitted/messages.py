"""Define the Dagster Pipes messages between a child process and the step that launched it.

Pipes carries the logs. Tables, checks and observations go as custom messages, as Dagster itself writes them down: Pipes'
own messages leave out a check's description, and know fewer kinds of metadata. So do the process's number, and why it
failed.
"""

from collections.abc import Iterator
from typing import Any

import dagster as dg
from dagster_pipes import PipesContext, PipesException

_PROCESS, _FAILURE, _EVENT = "process", "failure", "event"

Event = dg.AssetMaterialization | dg.AssetCheckEvaluation | dg.AssetObservation
"""What a process reports of a table: that it was written, what a check found, or what was seen of a replay's branch."""

Result = dg.MaterializeResult | dg.AssetCheckResult | dg.AssetObservation
"""The same, as the step gives it to Dagster."""


def report_process(pipes: PipesContext, process: int) -> None:
    """Report the process id, so that a cancelled run can interrupt the process."""
    pipes.report_custom_message({_PROCESS: process})


def report_failure(pipes: PipesContext, words: str, error: PipesException | None) -> None:
    """Report why the work failed, and close the connection.

    Args:
        pipes: the connection.
        words: the message for people.
        error: the error with its stack, if any.
    """
    pipes.report_custom_message({_FAILURE: words})
    pipes.close(error)


def report_event(pipes: PipesContext, event: Event) -> None:
    """Report an event of a table."""
    pipes.report_custom_message({_EVENT: dg.serialize_value(event)})


def reported_process(session: dg.PipesSession) -> int | None:
    """Return the process id, once it is reported."""
    return next(_custom(session, _PROCESS), None)


def reported_failure(session: dg.PipesSession) -> str | None:
    """Return why the work failed, if the process has reported it."""
    return next(_custom(session, _FAILURE), None)


def reported_results(session: dg.PipesSession) -> list[Result]:
    """What was reported of tables so far, in its order."""
    return [_result(dg.deserialize_value(text)) for text in _custom(session, _EVENT)]


def _result(event: Any) -> Result:
    if isinstance(event, dg.AssetMaterialization):
        return dg.MaterializeResult(asset_key=event.asset_key, metadata=event.metadata)
    if isinstance(event, dg.AssetCheckEvaluation):
        return dg.AssetCheckResult(
            passed=event.passed,
            asset_key=event.asset_key,
            check_name=event.check_name,
            metadata=event.metadata,
            severity=event.severity,
            description=event.description,
        )
    return event


def _custom(session: dg.PipesSession, kind: str) -> Iterator[Any]:
    return (message[kind] for message in session.get_custom_messages() if kind in message)
