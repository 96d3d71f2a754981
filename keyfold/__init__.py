"""Keyfold: stateful, per-key stream processing in one process or on Spark, run as Dagster assets.

The names below are the public interface. They are imported when they are first used, so that `import keyfold` is cheap.
"""

from typing import TYPE_CHECKING

from keyfold.errors import (
    Damaged,
    IncompatibleState,
    InvalidData,
    KeyfoldError,
    Locked,
    Misconfigured,
    NotFound,
    StepFailed,
    Unreachable,
)
from keyfold.lazy_names import lazy_names

if TYPE_CHECKING:
    from keyfold.columns import column, passed_on, plain_columns, required, unit_of
    from keyfold.discovery import declarations, import_modules
    from keyfold.keyed.calling.harness import TestHarness
    from keyfold.keyed.conservation import assert_nothing_lost
    from keyfold.keyed.generation.configured import live_parameters
    from keyfold.keyed.generation.run_mode import FullRefresh, Incremental, Replay
    from keyfold.keyed.job.building import build_job, with_parameters
    from keyfold.keyed.job.contract import KeyedJob
    from keyfold.keyed.job.inputs import STEP_DECIDES, Input
    from keyfold.keyed.job.lookups import Lookup
    from keyfold.keyed.job.parameters import (
        Delay,
        Duration,
        EventTimeParameters,
        FilePath,
        JobParameters,
        Names,
        Window,
        WindowShape,
        parameter,
    )
    from keyfold.keyed.job.per_key import KeyAnswer, per_key
    from keyfold.keyed.job.row_times import RowTimes
    from keyfold.keyed.job.state import State
    from keyfold.keyed.job.step import DEADLINE, PROCESSING_DEADLINE, Clock, Step
    from keyfold.keyed.job.tables import Append, Upsert
    from keyfold.keyed.job.timeouts import TimeKind, Timeout
    from keyfold.keyed.rows.response_cache import ResponseCache
    from keyfold.lakehouse import Lakehouse
    from keyfold.lakehouse.reading import read_table, scan_table
    from keyfold.project import Project, project_suites
    from keyfold.runners import Runners
    from keyfold.runs import explain, ingest, run
    from keyfold.schemas import field_of
    from keyfold.state.reading.reader import read_state
    from keyfold.state.rows.lines import json_lines
    from keyfold.stream import INGESTED_AT, TIMESTAMP, FileFormat, JobTable, Rule, Source, Stream
    from keyfold.stream.refined import PartOf
    from keyfold.stream.stream import not_empty, outside

__all__ = [
    "DEADLINE",
    "INGESTED_AT",
    "PROCESSING_DEADLINE",
    "STEP_DECIDES",
    "TIMESTAMP",
    "Append",
    "Clock",
    "Damaged",
    "Delay",
    "Duration",
    "EventTimeParameters",
    "FileFormat",
    "FilePath",
    "FullRefresh",
    "IncompatibleState",
    "Incremental",
    "Input",
    "InvalidData",
    "JobParameters",
    "JobTable",
    "KeyAnswer",
    "KeyedJob",
    "KeyfoldError",
    "Lakehouse",
    "Locked",
    "Lookup",
    "Misconfigured",
    "Names",
    "NotFound",
    "PartOf",
    "Project",
    "Replay",
    "ResponseCache",
    "RowTimes",
    "Rule",
    "Runners",
    "Source",
    "State",
    "Step",
    "StepFailed",
    "Stream",
    "TestHarness",
    "TimeKind",
    "Timeout",
    "Unreachable",
    "Upsert",
    "Window",
    "WindowShape",
    "assert_nothing_lost",
    "build_job",
    "column",
    "declarations",
    "explain",
    "field_of",
    "import_modules",
    "ingest",
    "json_lines",
    "live_parameters",
    "not_empty",
    "outside",
    "parameter",
    "passed_on",
    "per_key",
    "plain_columns",
    "project_suites",
    "read_state",
    "read_table",
    "required",
    "run",
    "scan_table",
    "unit_of",
    "with_parameters",
]

_MODULES = {
    "keyfold.columns": (
        "column",
        "passed_on",
        "plain_columns",
        "required",
        "unit_of",
    ),
    "keyfold.discovery": (
        "declarations",
        "field_of",
        "import_modules",
    ),
    "keyfold.keyed.calling.harness": ("TestHarness",),
    "keyfold.keyed.generation.configured": ("live_parameters",),
    "keyfold.keyed.generation.run_mode": (
        "FullRefresh",
        "Incremental",
        "Replay",
    ),
    "keyfold.keyed.job.building": (
        "build_job",
        "with_parameters",
    ),
    "keyfold.keyed.job.contract": ("KeyedJob",),
    "keyfold.keyed.job.inputs": (
        "Input",
        "STEP_DECIDES",
    ),
    "keyfold.keyed.job.lookups": ("Lookup",),
    "keyfold.keyed.job.parameters": (
        "Delay",
        "Duration",
        "EventTimeParameters",
        "FilePath",
        "JobParameters",
        "Names",
        "Window",
        "WindowShape",
        "parameter",
    ),
    "keyfold.keyed.job.per_key": (
        "KeyAnswer",
        "per_key",
    ),
    "keyfold.keyed.job.row_times": ("RowTimes",),
    "keyfold.keyed.job.state": ("State",),
    "keyfold.keyed.job.step": (
        "Clock",
        "DEADLINE",
        "PROCESSING_DEADLINE",
        "Step",
    ),
    "keyfold.keyed.job.tables": (
        "Append",
        "Upsert",
    ),
    "keyfold.keyed.job.timeouts": (
        "TimeKind",
        "Timeout",
    ),
    "keyfold.keyed.conservation": ("assert_nothing_lost",),
    "keyfold.keyed.rows.response_cache": ("ResponseCache",),
    "keyfold.lakehouse": ("Lakehouse",),
    "keyfold.lakehouse.reading": (
        "read_table",
        "scan_table",
    ),
    "keyfold.project": (
        "Project",
        "project_suites",
    ),
    "keyfold.runners": ("Runners",),
    "keyfold.runs": ("explain", "ingest", "run"),
    "keyfold.schemas": ("field_of",),
    "keyfold.state.reading.reader": ("read_state",),
    "keyfold.state.rows.lines": ("json_lines",),
    "keyfold.stream": (
        "FileFormat",
        "INGESTED_AT",
        "JobTable",
        "Rule",
        "Source",
        "Stream",
        "TIMESTAMP",
    ),
    "keyfold.stream.refined": ("PartOf",),
    "keyfold.stream.stream": (
        "not_empty",
        "outside",
    ),
}
__getattr__ = lazy_names(globals(), _MODULES)

# At import, so that it runs in every worker: executors join and leave while an application runs.
if type(__loader__).__name__ == "zipimporter":
    from keyfold.session.shipped import check_worker

    check_worker(__loader__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
