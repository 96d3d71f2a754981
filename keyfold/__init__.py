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
    from keyfold.columns import column, required
    from keyfold.ingestion import ingest
    from keyfold.keyed.calling.harness import TestHarness
    from keyfold.keyed.job.building import build_job, with_parameters
    from keyfold.keyed.job.contract import KeyedJob
    from keyfold.keyed.job.inputs import STEP_DECIDES, Input
    from keyfold.keyed.job.lookups import Lookup
    from keyfold.keyed.job.parameters import JobParameters, parameter
    from keyfold.keyed.job.per_key import KeyAnswer, per_key
    from keyfold.keyed.job.state import State
    from keyfold.keyed.job.step import Clock, Step
    from keyfold.keyed.job.tables import Append, Upsert
    from keyfold.keyed.reporting.conservation import assert_nothing_lost
    from keyfold.lakehouse import Lakehouse
    from keyfold.lakehouse.reading import read_table
    from keyfold.project import Project
    from keyfold.runners import Runners
    from keyfold.runs import run
    from keyfold.state.reading.reader import read_state
    from keyfold.stream import Rule, Source, Stream

__all__ = [
    "STEP_DECIDES",
    "Append",
    "Clock",
    "Damaged",
    "IncompatibleState",
    "Input",
    "InvalidData",
    "JobParameters",
    "KeyAnswer",
    "KeyedJob",
    "KeyfoldError",
    "Lakehouse",
    "Locked",
    "Lookup",
    "Misconfigured",
    "NotFound",
    "Project",
    "Rule",
    "Runners",
    "Source",
    "State",
    "Step",
    "StepFailed",
    "Stream",
    "TestHarness",
    "Unreachable",
    "Upsert",
    "assert_nothing_lost",
    "build_job",
    "column",
    "ingest",
    "parameter",
    "per_key",
    "read_state",
    "read_table",
    "required",
    "run",
    "with_parameters",
]

_MODULES = {
    "keyfold.columns": ("column", "required"),
    "keyfold.ingestion": ("ingest",),
    "keyfold.keyed.reporting.conservation": ("assert_nothing_lost",),
    "keyfold.keyed.job.contract": ("KeyedJob",),
    "keyfold.keyed.calling.harness": ("TestHarness",),
    "keyfold.keyed.job.lookups": ("Lookup",),
    "keyfold.keyed.job.building": ("build_job", "with_parameters"),
    "keyfold.keyed.job.parameters": ("JobParameters", "parameter"),
    "keyfold.keyed.job.state": ("State",),
    "keyfold.keyed.job.per_key": ("KeyAnswer", "per_key"),
    "keyfold.keyed.job.tables": ("Append", "Upsert"),
    "keyfold.keyed.job.inputs": ("STEP_DECIDES", "Input"),
    "keyfold.keyed.job.step": ("Clock", "Step"),
    "keyfold.lakehouse": ("Lakehouse",),
    "keyfold.lakehouse.reading": ("read_table",),
    "keyfold.project": ("Project",),
    "keyfold.runners": ("Runners",),
    "keyfold.runs": ("run",),
    "keyfold.state.reading.reader": ("read_state",),
    "keyfold.stream": ("Rule", "Source", "Stream"),
}
__getattr__ = lazy_names(globals(), _MODULES)

# At import, so that it runs in every worker: executors join and leave while an application runs.
if type(__loader__).__name__ == "zipimporter":
    from keyfold.session.shipped import check_worker

    check_worker(__loader__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
