"""What a process of its own tells the step that launched it, by Dagster Pipes: both ends of each message.

Pipes has messages of its own for logs, materializations and check results. What it has none for goes as a custom
message: a process's number, observations, and why it failed. A check's description, which Pipes would leave out, goes
among its metadata.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
from dagster_pipes import PipesContext, PipesException, PipesMetadataRawValue, PipesMetadataType, PipesMetadataValue

_DESCRIPTION = "keyfold/description"
_PROCESS, _FAILURE, _OBSERVATION = "process", "failure", "observation"

Result = dg.MaterializeResult | dg.AssetCheckResult


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


def tell_materialization(pipes: PipesContext, made: dg.AssetMaterialization) -> None:
    """Report a table that was written, with its metadata."""
    pipes.report_asset_materialization(asset_key=made.asset_key.to_escaped_user_string(), metadata=_told(made.metadata))


def tell_check(pipes: PipesContext, found: dg.AssetCheckEvaluation) -> None:
    """Report what a check found."""
    metadata = dict(found.metadata)
    if found.description is not None:
        metadata[_DESCRIPTION] = dg.MetadataValue.text(found.description)
    pipes.report_asset_check(
        found.check_name,
        found.passed,
        severity=found.severity.value,
        metadata=_told(metadata),
        asset_key=found.asset_key.to_escaped_user_string(),
    )


def tell_observation(pipes: PipesContext, seen: dg.AssetObservation) -> None:
    """Report what was seen of a table that was not written: a replay's branch."""
    pipes.report_custom_message({_OBSERVATION: dg.serialize_value(seen)})


def process_told(session: dg.PipesSession) -> int | None:
    """The process that works, once it has said so."""
    return next(_custom(session, _PROCESS), None)


def failure_told(session: dg.PipesSession) -> str | None:
    """Why the work failed, if the process could say it."""
    return next(_custom(session, _FAILURE), None)


def observations_told(session: dg.PipesSession) -> list[dg.AssetObservation]:
    """What was seen of tables that were not written."""
    return [dg.deserialize_value(text, dg.AssetObservation) for text in _custom(session, _OBSERVATION)]


def results_told(session: dg.PipesSession) -> list[Result]:
    """Tables that were written, and what checks found, in the order in which they were reported."""
    return [_described(result) for result in session.get_reported_results()]


def _described(result: Any) -> Result:
    if not isinstance(result, dg.AssetCheckResult) or _DESCRIPTION not in (result.metadata or {}):
        return result
    metadata = dict(result.metadata or {})
    return result._replace(description=str(metadata.pop(_DESCRIPTION).value), metadata=metadata)


def _custom(session: dg.PipesSession, kind: str) -> Iterator[Any]:
    return (message[kind] for message in session.get_custom_messages() if kind in message)


def _told(metadata: Mapping[str, Any]) -> dict[str, PipesMetadataRawValue | PipesMetadataValue]:
    """Metadata as Pipes has it: by types, so that it comes out on the other side as what it was."""
    return {name: _value(value) for name, value in metadata.items()}


def _value(value: dg.MetadataValue) -> PipesMetadataValue:
    for kind, (name, raw) in _KINDS.items():
        if isinstance(value, kind):
            return {"type": name, "raw_value": raw(value)}
    # Dagster makes kinds that Pipes does not know; what they hold can be read all the same.
    return {"type": "text", "raw_value": str(value.value)}


def _itself(value: Any) -> Any:
    return value.value


_KINDS: Mapping[type[dg.MetadataValue], tuple[PipesMetadataType, Callable[[Any], PipesMetadataRawValue]]] = {
    dg.TextMetadataValue: ("text", _itself),
    dg.UrlMetadataValue: ("url", _itself),
    dg.PathMetadataValue: ("path", lambda value: str(value.value)),
    dg.NotebookMetadataValue: ("notebook", lambda value: str(value.value)),
    dg.JsonMetadataValue: ("json", _itself),
    dg.MarkdownMetadataValue: ("md", _itself),
    dg.FloatMetadataValue: ("float", _itself),
    dg.IntMetadataValue: ("int", _itself),
    dg.BoolMetadataValue: ("bool", _itself),
    dg.TimestampMetadataValue: ("timestamp", _itself),
    dg.NullMetadataValue: ("null", lambda _: None),
    dg.DagsterRunMetadataValue: ("dagster_run", _itself),
    dg.DagsterAssetMetadataValue: ("asset", lambda value: value.asset_key.to_user_string()),
    dg.TableMetadataValue: (
        "table",
        lambda value: {
            "records": [dict(record.data) for record in value.records],
            "schema": _columns(value.schema.columns),
        },
    ),
    dg.TableSchemaMetadataValue: ("table_schema", lambda value: {"columns": _columns(value.schema.columns)}),
    dg.TableColumnLineageMetadataValue: (
        "table_column_lineage",
        lambda value: {
            "deps_by_column": {
                column: [{"asset_key": dep.asset_key.path, "column_name": dep.column_name} for dep in deps]
                for column, deps in value.column_lineage.deps_by_column.items()
            }
        },
    ),
}


def _columns(columns: Sequence[dg.TableColumn]) -> list[dict[str, Any]]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "description": column.description,
            "tags": dict(column.tags or {}),
            "constraints": {
                "nullable": column.constraints.nullable,
                "unique": column.constraints.unique,
                "other": list(column.constraints.other or []),
            },
        }
        for column in columns
    ]
