"""A run takes the parameters that it is given, that its job was built with, and otherwise those of the live generation."""

import pyarrow as pa
import pytest

import keyfold
from keyfold import Append, Input, JobParameters, KeyedJob, Misconfigured, Runners, Step, build_job, parameter, required
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import FullRefresh
from keyfold.keyed.job.inputs import STEP_DECIDES
from tests.shop import CLICKS

SEEN = pa.schema([required("user", pa.string(), "Who")])


class Limits(JobParameters):
    """How many rows are written."""

    most: int = parameter(10, change="migrate")
    least: int = parameter(0, change="migrate")


def build(limits: Limits) -> KeyedJob:
    """The users."""

    def step(state, events, clock):
        return Step(state=state, output=events.select("user").head(limits.most))

    return KeyedJob(
        "users",
        Input(CLICKS, columns=("user", "at"), final_at=STEP_DECIDES),
        "user",
        SEEN,
        step,
        Append(SEEN),
        parameters=limits,
    )


JOB = keyfold.with_parameters(build)


@pytest.fixture
def run(lake):
    """Run the job over a click more; return the parameters of the live generation."""

    def run(job=JOB, *mode, **options):
        lake.click(("ann", 1))
        keyfold.run(lake.lakehouse, job, *mode, runners=Runners("local"), **options)
        live = live_generation(lake.lakehouse, "users")
        assert live is not None
        recorded = live.record.parameters
        return recorded["most"], recorded["least"]

    return run


def test_a_bare_job_runs_with_the_parameters_of_its_live_generation(run):
    assert run(parameters={"most": 5}) == (5, 0)
    assert run() == (5, 0)
    assert run(JOB, FullRefresh()) == (10, 0)


def test_a_job_that_has_the_parameters_of_its_run_is_not_built_again(run, lake):
    assert configured_job(lake.lakehouse, JOB) is JOB
    assert run(parameters={"most": 5}) == (5, 0)
    assert configured_job(lake.lakehouse, JOB) is not JOB
    assert configured_job(lake.lakehouse, built := build_job(JOB, {"most": 5})) is built
    assert configured_job(lake.lakehouse, JOB, FullRefresh()) is JOB


def test_what_a_job_was_built_with_counts_as_given(run):
    assert run(build_job(JOB, {"most": 5, "least": 2})) == (5, 2)
    assert run(build_job(JOB, {"least": 2})) == (5, 2)
    assert run(build_job(JOB, {"least": 3}), FullRefresh(), parameters={"most": 4}) == (4, 3)


def test_a_parameter_that_is_not_there_is_refused_with_the_nearest_name(run):
    with pytest.raises(Misconfigured, match="has no parameter mots; did you mean most"):
        run(parameters={"mots": 1})
