"""What a process of its own tells the step that launched it, by Dagster Pipes: both ends of each message.

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


def tell_process(pipes: PipesContext, process: int) -> None:
    """Say which process works, so that a run that is cancelled can interrupt it."""
    pipes.report_custom_message({_PROCESS: process})


def tell_failure(pipes: PipesContext, words: str, error: PipesException | None) -> None:
    """Say why the work failed; nothing can be told after it.

    Args:
        pipes: the connection.
        words: for people.
        error: with its stack, where there is one.
    """
    pipes.report_custom_message({_FAILURE: words})
    pipes.close(error)


def tell_event(pipes: PipesContext, event: Event) -> None:
    """Report an event of a table."""
    pipes.report_custom_message({_EVENT: dg.serialize_value(event)})


def process_told(session: dg.PipesSession) -> int | None:
    """The process that works, once it has said so."""
    return next(_custom(session, _PROCESS), None)


def failure_told(session: dg.PipesSession) -> str | None:
    """Why the work failed, if the process could say it."""
    return next(_custom(session, _FAILURE), None)


def results_told(session: dg.PipesSession) -> list[Result]:
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
