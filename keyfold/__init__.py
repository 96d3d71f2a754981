"""Keyfold: stateful, per-key stream processing with PySpark, run as Dagster assets.

The names below are the public interface. They are imported when they are first used, so that `import keyfold` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
from keyfold.shipped import check_worker

if TYPE_CHECKING:
    from keyfold.columns import column
    from keyfold.ingestion import ingest
    from keyfold.keyed.configured import configured_job
    from keyfold.keyed.conservation import assert_nothing_lost
    from keyfold.keyed.contract import Clock, JobTemplate, KeyedJob, OutputTable, Step
    from keyfold.keyed.harness import TestHarness
    from keyfold.keyed.job_tables import JobTable
    from keyfold.keyed.lookups import Lookup
    from keyfold.keyed.parameters import JobParameters, build_job
    from keyfold.keyed.per_key import KeyAnswer, per_key
    from keyfold.keyed.several_inputs import Input
    from keyfold.lakehouse import Lakehouse
    from keyfold.operators.patterns import FollowedBy, Times, Without, pattern_job
    from keyfold.project import Project
    from keyfold.runs import ingest_continuously, run, run_continuously
    from keyfold.session import build_session
    from keyfold.state.reader import read_state
    from keyfold.stream import Rule, Source, Stream

__all__ = [
    "Clock",
    "Damaged",
    "FollowedBy",
    "IncompatibleState",
    "Input",
    "InvalidData",
    "JobParameters",
    "JobTable",
    "JobTemplate",
    "KeyAnswer",
    "KeyedJob",
    "KeyfoldError",
    "Lakehouse",
    "Locked",
    "Lookup",
    "Misconfigured",
    "NotFound",
    "OutputTable",
    "Project",
    "Rule",
    "Source",
    "Step",
    "StepFailed",
    "Stream",
    "TestHarness",
    "Times",
    "Unreachable",
    "Without",
    "assert_nothing_lost",
    "build_job",
    "build_session",
    "column",
    "configured_job",
    "ingest",
    "ingest_continuously",
    "pattern_job",
    "per_key",
    "read_state",
    "run",
    "run_continuously",
]

_MODULES = {
    "keyfold.columns": ("column",),
    "keyfold.ingestion": ("ingest",),
    "keyfold.keyed.configured": ("configured_job",),
    "keyfold.keyed.conservation": ("assert_nothing_lost",),
    "keyfold.keyed.contract": ("Clock", "JobTemplate", "KeyedJob", "OutputTable", "Step"),
    "keyfold.keyed.harness": ("TestHarness",),
    "keyfold.keyed.job_tables": ("JobTable",),
    "keyfold.keyed.lookups": ("Lookup",),
    "keyfold.keyed.parameters": ("JobParameters", "build_job"),
    "keyfold.keyed.per_key": ("KeyAnswer", "per_key"),
    "keyfold.keyed.several_inputs": ("Input",),
    "keyfold.lakehouse": ("Lakehouse",),
    "keyfold.operators.patterns": ("FollowedBy", "Times", "Without", "pattern_job"),
    "keyfold.project": ("Project",),
    "keyfold.runs": ("ingest_continuously", "run", "run_continuously"),
    "keyfold.session": ("build_session",),
    "keyfold.state.reader": ("read_state",),
    "keyfold.stream": ("Rule", "Source", "Stream"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

# Here, and not in a first task alone: executors come and go while an application runs.
check_worker(__loader__)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
