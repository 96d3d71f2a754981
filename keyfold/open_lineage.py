"""Report runs to a catalog by OpenLineage events, if the environment configures its client (`OPENLINEAGE_URL`, …).

A run is a START and a COMPLETE, FAIL or ABORT event, with the tables that it reads and writes, their columns, and which columns
of the input each column of an output depends on; a continuous run is RUNNING in between. Source:
https://openlineage.io/docs/spec/object-model.
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pyarrow as pa

from keyfold.columns import lineage_of, meaning_of
from keyfold.errors import Misconfigured, first_line
from keyfold.storage.place import Place

_VARIABLES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT")
_NAMESPACE = "OPENLINEAGE_NAMESPACE"
_PRODUCER = "urn:keyfold"

EVERY = 300.0
"""Seconds between two RUNNING events of a continuous run: a catalog keeps each."""

_LAST_SECONDS = 10.0
"""Time for a RUNNING event that is on its way when the run ends."""


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
        return self.place.catalog_name


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment configures a client of OpenLineage.

    Example:
        >>> is_configured({}), is_configured({"OPENLINEAGE_URL": "http://127.0.0.1:5000"})
        (False, True)
    """
    return any(name.startswith(_VARIABLES) for name in environment)


@contextmanager
def lineage_reported(
    run: str,
    inputs: Sequence[Dataset],
    outputs: Sequence[Dataset],
    on_warning: Callable[[str], None] | None,
    *,
    every: float | None = None,
) -> Iterator[None]:
    """Report a run within a `with` block, and how it ended. Without a client's configuration, nothing is done.

    Args:
        run: the name of the job, or of what is ingested.
        inputs, outputs: what it reads and writes.
        on_warning: called when the catalog could not be told, and not again until it was; the run goes on.
        every: seconds between two RUNNING events of a continuous run; None for a bounded run.

    Raises:
        Misconfigured: the client is configured, and not installed.
    """
    if not is_configured():
        yield
        return
    try:
        # Imported late: the library takes a quarter of a second, and few need it.
        events, facets = (import_module(f"openlineage.client.{name}") for name in ("event_v2", "facet_v2"))
    except ModuleNotFoundError:
        raise Misconfigured(
            f"a variable of {', '.join(_VARIABLES)}… is set, and openlineage-python is not installed; install keyfold[lineage], or "
            "unset it"
        ) from None
    number, ended, has_failed = str(uuid.uuid4()), threading.Event(), False
    kind = facets.job_type_job.JobTypeJobFacet(
        "STREAMING" if every else "BATCH", "KEYFOLD", jobType="JOB", producer=_PRODUCER
    )
    read = [events.InputDataset(*dataset.name, facets=_columns_of(dataset, facets)) for dataset in inputs]
    written = [
        events.OutputDataset(*dataset.name, facets=_columns_of(dataset, facets) | _lineage(dataset, inputs, facets))
        for dataset in outputs
    ]

    def emit(state: str, **of_run: Any) -> None:
        nonlocal has_failed
        job = events.Job(os.environ.get(_NAMESPACE, "keyfold"), run, {"jobType": kind})
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
            has_failed = False
        # Whatever a transport raises: the run itself goes on. Only the type, since the text may have an address with a token.
        except Exception as error:
            if on_warning is not None and not has_failed:
                on_warning(
                    f"this run could not be reported by OpenLineage ({type(error).__name__}); check {_VARIABLES[0]}"
                )
            has_failed = True

    def go_on() -> None:
        while not ended.wait(every):
            emit("RUNNING")

    emit("START")
    # Batches do not wait for a catalog, nor does the end of the process for long.
    running = threading.Thread(target=go_on, name="lineage", daemon=True)
    if every:
        running.start()

    def end() -> None:
        ended.set()
        if every:
            running.join(_LAST_SECONDS)

    try:
        yield
    except BaseException as error:
        end()
        # Keyfold's own errors have no private values and no secrets; others are named by their type.
        said = first_line(error) if type(error).__module__.startswith("keyfold.") else type(error).__name__
        state = "ABORT" if isinstance(error, KeyboardInterrupt) else "FAIL"
        emit(state, errorMessage=facets.error_message_run.ErrorMessageRunFacet(said, "python", producer=_PRODUCER))
        raise
    end()
    emit("COMPLETE")


def _columns_of(dataset: Dataset, facets: Any) -> dict[str, Any]:
    if dataset.schema is None:
        return {}
    module = facets.schema_dataset
    fields = [
        module.SchemaDatasetFacetFields(column.name, str(column.type), meaning_of(column)) for column in dataset.schema
    ]
    return {"schema": module.SchemaDatasetFacet(fields=fields, producer=_PRODUCER)}


def _lineage(output: Dataset, inputs: Sequence[Dataset], facets: Any) -> dict[str, Any]:
    """Return which columns of the inputs each column depends on: those of the declared names."""
    module, fields = facets.column_lineage_dataset, {}
    for column in output.schema or []:
        sources = [
            module.InputField(*source.name, name)
            for name in lineage_of(column)
            for source in inputs
            if source.schema is not None and name in source.schema.names
        ]
        if sources:
            fields[column.name] = module.Fields(inputFields=sources)
    return {"columnLineage": module.ColumnLineageDatasetFacet(fields=fields, producer=_PRODUCER)} if fields else {}
