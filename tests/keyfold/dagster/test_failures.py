"""How a step fails in Dagster: with the message of what a person can mend, and retried only where that may help."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest

import keyfold
from keyfold import (
    Append,
    Damaged,
    IncompatibleState,
    Input,
    InvalidData,
    KeyedJob,
    KeyfoldError,
    Locked,
    Misconfigured,
    NotFound,
    Runners,
    StepFailed,
    Unreachable,
)
from keyfold.dagster import Keyfold, keyfold_assets
from keyfold.dagster.alerting import _failure
from keyfold.dagster.failures import fails_with_message
from keyfold.operators import count, windows
from tests.shop import CLICKS

PER_HOUR = windows("per_hour", CLICKS, {"n": count()}, key="user", length="1h")


def failed(definitions: dg.Definitions, lakehouse) -> tuple[list[Any], int, str | None]:
    """The failures of a run whose steps may be retried once, the number of retries, and the text of its alert."""
    job = dg.define_asset_job(
        "job",
        selection=dg.AssetSelection.all(),
        op_retry_policy=dg.RetryPolicy(max_retries=1),
        executor_def=dg.in_process_executor,
    )
    resource = dg.IOManagerDefinition.hardcoded_io_manager(Keyfold(lakehouse, Runners("local")))
    merged = dg.Definitions.merge(definitions, dg.Definitions(jobs=[job], resources={"keyfold": resource}))
    with dg.DagsterInstance.ephemeral() as instance:
        run = merged.resolve_job_def("job").execute_in_process(instance=instance, raise_on_error=False)
        assert not run.success
        retries = [one for one in run.all_events if one.event_type == dg.DagsterEventType.STEP_UP_FOR_RETRY]
        failures = [one.step_failure_data for one in run.all_events if one.is_step_failure]
        return failures, len(retries), _failure(instance, run.dagster_run)


def of_keyfold(frames):
    package = str(Path(keyfold.__file__).parent)
    return [frame for frame in frames if f'"{package}/' in frame and "failures.py" not in frame]


def test_a_job_without_events_fails_with_the_command_that_helps_and_without_frames_of_keyfold(lakehouse):
    (data,), retries, alert = failed(dg.Definitions(assets=keyfold_assets(jobs=[PER_HOUR])), lakehouse)
    assert "`keyfold ingest clicks" in data.user_failure_data.description
    assert data.user_failure_data.metadata["keyfold/error"].value == "NotFound"
    assert data.error.message.startswith("dagster._core.definitions.events.Failure: ")
    assert "keyfold ingest clicks" in data.error.message
    assert (of_keyfold(data.error.stack), data.error.cause, retries) == ([], None, 0)
    assert data.user_failure_data.description in (alert or "")


def test_the_author_of_a_step_sees_its_frames_below_the_message(lake):
    def step(state, events, clock):
        raise ValueError("my own fault")

    lake.click(("ann", 1))
    job = KeyedJob("mine", Input(CLICKS, final_at="at"), "user", {"user": pl.String}, step, Append({"user": pl.String}))
    (data,), retries, _ = failed(dg.Definitions(assets=keyfold_assets(jobs=[job])), lake.lakehouse)
    assert "job mine" in data.user_failure_data.description
    assert "my own fault" in data.error.message
    assert data.user_failure_data.metadata["keyfold/error"].value == "StepFailed"
    assert data.error.cause.message == "ValueError: my own fault\n"
    assert "in step" in data.error.cause.stack[-1]
    assert retries == 0


def test_a_job_that_another_process_runs_is_retried(lake):
    lake.click(("ann", 1))
    with lake.lakehouse.job("per_hour").exclusive("per_hour"):
        (data,), retries, _ = failed(dg.Definitions(assets=keyfold_assets(jobs=[PER_HOUR])), lake.lakehouse)
    assert data.user_failure_data.metadata["keyfold/error"].value == "Locked"
    assert retries == 1


AGAIN = [Damaged, IncompatibleState, InvalidData, Misconfigured, NotFound, StepFailed]


@pytest.mark.parametrize("kind", [*AGAIN, Locked, Unreachable, KeyfoldError], ids=lambda kind: kind.__name__)
def test_what_fails_again_without_a_change_is_not_retried(kind):
    @fails_with_message
    def returns(seconds: timedelta) -> None:
        raise kind(f"after {seconds}")

    @fails_with_message
    def yields(seconds: timedelta):
        yield 1
        raise kind(f"after {seconds}")

    for call in (returns, lambda seconds: list(yields(seconds))):
        with pytest.raises(dg.Failure) as failure:
            call(timedelta(0))
        assert failure.value.description == "after 0:00:00"
        assert failure.value.allow_retries == (kind not in AGAIN)


def test_another_error_is_left_to_dagster_as_it_is():
    @fails_with_message
    def step() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        step()
