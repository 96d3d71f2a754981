"""`keyfold jobs`, `streams`, `tables` and `params`: list what the project declares, without Spark."""

from typing import Annotated, Any

import typer

from keyfold.cli.known_names import require_known
from keyfold.cli.options import DEFAULT_HOME, AsJson, Home
from keyfold.cli.terminal import failures, print_rows
from keyfold.keyed.job.parameters import describe_parameters
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import count_rows
from keyfold.project import project_jobs, project_streams
from keyfold.runs.jobs import own_parameters

_STREAM_TABLES = {"events": "events", "quarantine": "rejected rows"}


def jobs(as_json: AsJson = False) -> None:
    """List the jobs with their streams, keys and descriptions."""
    with failures():
        rows = [_job_row(name) for name in project_jobs()]
        print_rows("jobs", rows, ("job", "stream", "key", "description"), as_json=as_json)


def streams(as_json: AsJson = False) -> None:
    """List the streams with their event times, event ids and descriptions."""
    with failures():
        rows = [
            {
                "stream": stream.name,
                "event_time": stream.event_time,
                "event_id": list(stream.event_id),
                "columns": {field.name: str(field.type) for field in stream.schema},
                "description": stream.description,
            }
            for stream in project_streams().values()
        ]
        print_rows("streams", rows, ("stream", "event_time", "event_id", "description"), as_json=as_json)


def tables(home: Home = DEFAULT_HOME, as_json: AsJson = False) -> None:
    """List the tables with their writers and row counts."""
    with failures():
        existing = Lakehouse(home).tables()
        declared = declared_tables()
        rows = [
            {
                "table": name,
                "written_by": declared.get(name, ("", ""))[0],
                "contains": declared.get(name, ("", ""))[1],
                "rows": count_rows(existing[name]) if name in existing else None,
                "path": str(existing[name]) if name in existing else None,
            }
            for name in [*declared, *(name for name in existing if name not in declared)]
        ]
        print_rows("tables", rows, ("table", "written_by", "contains", "rows"), as_json=as_json)


def params(
    job: Annotated[str, typer.Argument(help=f"One of: {', '.join(project_jobs())}.")],
    home: Home = DEFAULT_HOME,
    as_json: AsJson = False,
) -> None:
    """List the parameters of a job with types and defaults; `keyfold run JOB --param NAME=VALUE` sets one.

    Values of the live generation that differ from the defaults, such as promoted ones, are listed as `live`.
    """
    require_known("job", job, project_jobs())
    with failures():
        declared = project_jobs()[job]
        live = {name: now for name, (now, _) in own_parameters(Lakehouse(home), declared).items()}
        rows = [
            {
                "name": one.name,
                "type": one.type,
                "default": one.default,
                "live": live.get(one.name),
                "description": one.description,
            }
            for one in describe_parameters(declared.parameter_fields)
        ]
        columns = ("name", "type", "default", *(["live"] if live else []), "description")
        print_rows("parameters", rows, columns, as_json=as_json, job=job)


def declared_tables() -> dict[str, tuple[str, str]]:
    """Return the project's tables by name, each with the stream or job that writes it and with what it contains."""
    declared = {
        f"{kind}.{stream}": (f"stream {stream}", f"{contains} of {stream}")
        for stream in project_streams()
        for kind, contains in _STREAM_TABLES.items()
    }
    for job in project_jobs().values():
        for table in job.tables:
            contains = job.description if table.name == job.name else table.description
            declared[table.name] = (f"job {job.name}", contains)
    return declared


def _job_row(name: str) -> dict[str, Any]:
    job = project_jobs()[name]
    return {
        "job": name,
        "stream": ", ".join(one.name for one in job.streams),
        "key": list(job.key),
        "tables": [table.name for table in job.tables],
        "description": job.description,
    }
