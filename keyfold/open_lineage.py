"""Report runs to a catalog by OpenLineage events, if the environment configures its client (`OPENLINEAGE_URL`, …).

A run is a START and a COMPLETE or FAIL event, with the tables that it reads and writes, their columns, and which columns of the
input each column of an output depends on. Source: https://openlineage.io/docs/spec/object-model.
"""

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pyarrow as pa

from keyfold.columns import lineage_of, meaning_of
from keyfold.errors import Misconfigured, first_line
from keyfold.storage.place import Place, namespace_and_name

_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
_NAMESPACE = "OPENLINEAGE_NAMESPACE"
_PRODUCER = "urn:keyfold"


@dataclass(frozen=True)
class Dataset:
    """A table, a landing folder or a topic.

    Attributes:
        place: where it is: a path, or the URL of a topic.
        schema: its columns; None where they are not known.
    """

    place: Place | str
    schema: pa.Schema | None = None

    @property
    def name(self) -> tuple[str, str]:
        """Its namespace and name, by the specification's conventions."""
        if isinstance(self.place, str):
            namespace, _, name = self.place.rpartition("/")
            return namespace, name
        return namespace_and_name(self.place)


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment configures a client of OpenLineage.

    Example:
        >>> is_configured({}), is_configured({"OPENLINEAGE_URL": "http://127.0.0.1:5000"})
        (False, True)
    """
    return any(name.startswith(_VARIABLES) for name in environment)


@contextmanager
def lineage_reported(run: str, inputs: Sequence[Dataset], outputs: Sequence[Dataset]) -> Iterator[list[str]]:
    """Report a run within a `with` block, and how it ended. Without a client's configuration, nothing is done.

    Yields a list that has, after the block, a warning if the catalog could not be told; the run goes on.

    Args:
        run: the name of the job, or of what is ingested.
        inputs, outputs: what it reads and writes.

    Raises:
        Misconfigured: the client is configured, and not installed.
    """
    warnings: list[str] = []
    if not is_configured():
        yield warnings
        return
    try:
        # Imported late: the library takes a quarter of a second, and few need it.
        events, facets = (import_module(f"openlineage.client.{name}") for name in ("event_v2", "facet_v2"))
    except ModuleNotFoundError:
        raise Misconfigured(
            f"a variable of {', '.join(_VARIABLES)}… is set, and openlineage-python is not installed; install keyfold[lineage], or "
            "unset it"
        ) from None
    number = str(uuid.uuid4())
    read = [events.InputDataset(*one.name, facets=_columns_of(one, facets)) for one in inputs]
    written = [
        events.OutputDataset(*one.name, facets=_columns_of(one, facets) | _lineage(one, inputs, facets))
        for one in outputs
    ]

    def emit(state: str, **of_run: Any) -> None:
        job = events.Job(os.environ.get(_NAMESPACE, "keyfold"), run)
        event = events.RunEvent(
            eventTime=datetime.now(UTC).isoformat(),
            producer=_PRODUCER,
            eventType=events.RunState[state],
            run=events.Run(number, of_run),
            job=job,
            inputs=read,
            outputs=written,
        )
        try:
            import_module("openlineage.client").OpenLineageClient().emit(event)
        # Whatever a transport raises: the run itself goes on. Only the type, since the text may have an address with a token.
        except Exception as error:
            warnings[:] = [
                f"this run could not be reported by OpenLineage ({type(error).__name__}); check {_VARIABLES[0]}"
            ]

    emit("START")
    try:
        yield warnings
    except BaseException as error:
        # Keyfold's own errors have no private values and no secrets; others are named by their type.
        said = first_line(error) if type(error).__module__.startswith("keyfold.") else type(error).__name__
        emit("FAIL", errorMessage=facets.error_message_run.ErrorMessageRunFacet(said, "python", producer=_PRODUCER))
        raise
    emit("COMPLETE")


def _columns_of(one: Dataset, facets: Any) -> dict[str, Any]:
    if one.schema is None:
        return {}
    module = facets.schema_dataset
    fields = [
        module.SchemaDatasetFacetFields(column.name, str(column.type), meaning_of(column)) for column in one.schema
    ]
    return {"schema": module.SchemaDatasetFacet(fields=fields, producer=_PRODUCER)}


def _lineage(one: Dataset, inputs: Sequence[Dataset], facets: Any) -> dict[str, Any]:
    """Return which columns of the inputs each column depends on: those of the declared names."""
    module, fields = facets.column_lineage_dataset, {}
    for column in one.schema or []:
        sources = [
            module.InputField(*source.name, name)
            for name in lineage_of(column)
            for source in inputs
            if source.schema is not None and name in source.schema.names
        ]
        if sources:
            fields[column.name] = module.Fields(inputFields=sources)
    return {"columnLineage": module.ColumnLineageDatasetFacet(fields=fields, producer=_PRODUCER)} if fields else {}
