"""Steps that launch a process: what comes back is what the definitions would have reported in the run's own process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from keyfold.dagster.automation.automation_conditions import on_checked_events
from keyfold.dagster.quality.checks import SCOPE_TAG
from keyfold.dagster.submitted.setting import is_submitted
from keyfold.dagster.submitted.spark_steps import submitted
from keyfold.errors import KeyfoldError
from keyfold.session import SparkSettings
from tests.keyfold.dagster.submitted import counted
from tests.keyfold.dagster.submitted.counted import COUNTS, EVENTS, LATE
from tests.waiting import lives, wait_until

ROOT = Path(__file__).parents[4]
SECRET = "planted-in-this-test"  # noqa: S105
CHECKS = [dg.AssetCheckKey(COUNTS, name) for name in ("counts_add_up", "counts_are_small")]


SETTINGS = {"spark.hadoop.fs.s3a.secret.key": SECRET}


def by_python(settings, program, arguments, folder):
    """The program that spark-submit would run, by Python."""
    return [sys.executable, "-c", program]


def definitions(assets=counted.ASSETS, checks=counted.CHECKS, command=by_python):
    steps, others = submitted(
        assets, checks, module=counted.__name__, settings=lambda: SparkSettings(conf=SETTINGS), command=command
    )
    return dg.Definitions(assets=steps, asset_checks=others)


@pytest.fixture(autouse=True)
def secret_of_spark(monkeypatch):
    monkeypatch.setenv("A_SECRET_OF_SPARK", SECRET)
    monkeypatch.setenv("KEYFOLD_SPARK_CONF", f"spark.hadoop.fs.s3a.secret.key={SECRET}")


def ran(defs, instance, *, selection=None, do="count", tags=None, told=""):
    wanted = dg.AssetSelection.all() if selection is None else selection
    job = dg.Definitions.merge(defs, dg.Definitions(jobs=[dg.define_asset_job("wanted", wanted)]))
    config = {"ops": {"count": {"config": {"do": do, "told": told}}}}
    return job.resolve_job_def("wanted").execute_in_process(
        instance=instance, run_config=config, tags=tags, raise_on_error=False
    )


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def materializations(result):
    return {
        event.asset_key: event.step_materialization_data.materialization
        for event in result.get_asset_materialization_events()
    }


def evaluations(result):
    return {found.check_name: found for found in result.get_asset_check_evaluations()}


def logged(instance, result):
    return [entry.user_message for entry in instance.all_logs(result.run_id) if entry.dagster_event is None]


def failure(result):
    """The kind of error that the step failed with, and what it says to people."""
    (event,) = [event for event in result.all_events if event.is_step_failure]
    data = event.step_failure_data
    assert data.error is not None
    return data.error.cls_name, data.user_failure_data.description if data.user_failure_data else None


def test_metadata_checks_and_logs_are_those_of_two_runs_in_one_process(instance):
    """The second run knows what the first has written, and has a tag that its checks look at."""
    defs = definitions()
    with dg.DagsterInstance.ephemeral() as own:
        for tags, batch in (({}, 1), ({SCOPE_TAG: "full"}, 2)):
            here, elsewhere = ran(counted.defs, own, tags=tags), ran(defs, instance, tags=tags)
            assert here.success
            assert elsewhere.success
            expected = {key: made.metadata for key, made in materializations(here).items()}
            assert {key: made.metadata for key, made in materializations(elsewhere).items()} == expected
            assert expected[COUNTS].keys() >= counted.METADATA.keys()
            assert expected[COUNTS]["keyfold/batch"].value == batch
            found = evaluations(elsewhere)
            assert {name: comparable(one) for name, one in found.items()} == {
                name: comparable(one) for name, one in evaluations(here).items()
            }
            assert found["counts_add_up"].metadata["run"].value == elsewhere.run_id
            assert found["counts_are_fresh"].metadata["process"].value == os.getpid(), "it needs no Spark"
            assert {"a word counts"} == set(logged(own, here)) <= set(logged(instance, elsewhere))


def comparable(found):
    metadata = {name: value for name, value in found.metadata.items() if name != "run"}
    return found.passed, found.severity, found.description, found.blocking, metadata


def test_checks_run_alone_and_one_table_stands_for_all_of_its_step(instance):
    defs = definitions()
    checked = ran(defs, instance, selection=dg.AssetSelection.checks(*CHECKS))
    assert checked.success
    assert evaluations(checked).keys() == {"counts_add_up", "counts_are_small"}
    assert not materializations(checked)
    late = ran(defs, instance, selection=dg.AssetSelection.assets(LATE))
    assert late.success
    assert materializations(late).keys() == {COUNTS, LATE}
    assert not evaluations(late)


def test_a_blocking_check_that_fails_holds_back_what_is_built_on_the_table_and_the_table_is_reported(
    instance, monkeypatch
):
    monkeypatch.setenv("COUNTS_ARE_WRONG", "yes")
    got = ran(definitions(), instance)
    assert not got.success
    assert materializations(got).keys() == {COUNTS, LATE}
    assert evaluations(got)["counts_add_up"].description == "3 ≠ 2"
    assert failure(got)[0] == "DagsterAssetCheckFailedError"


def test_new_events_start_a_step_once_with_its_checks_in_its_process(instance):
    """The automation sensor's ticks, and the run that it would start."""
    automated = [COUNTS, LATE]
    defs, cursor = (
        definitions().map_asset_specs(
            func=lambda spec: (
                spec.replace_attributes(automation_condition=on_checked_events()) if spec.key in automated else spec
            )
        ),
        None,
    )

    def wanted():
        nonlocal cursor
        tick = dg.evaluate_automation_conditions(defs, instance, cursor=cursor)
        cursor = tick.cursor
        return [key for key in automated if tick.get_num_requested(key)]

    assert wanted() == []
    instance.report_runless_asset_event(dg.AssetMaterialization(EVENTS))
    assert wanted() == automated, "its tables together"
    got = ran(defs, instance, selection=dg.AssetSelection.assets(*automated))
    assert materializations(got).keys() == set(automated)
    assert evaluations(got).keys() >= {"counts_add_up", "counts_are_small"}
    assert wanted() == []


def test_a_replay_s_observation_comes_back_and_no_table_is_said_to_be_written(instance):
    got = ran(definitions(), instance, selection=dg.AssetSelection.assets(COUNTS, LATE).without_checks(), do="observe")
    assert got.success
    assert not materializations(got)
    (seen,) = [event.asset_observation_data.asset_observation for event in got.all_events if event.is_asset_observation]
    assert seen.metadata["branch"].value == "trial"


def test_a_failure_is_told_in_its_own_words_with_its_stack_and_without_secrets(instance, capfd):
    got = ran(definitions(), instance, do="fail")
    assert failure(got)[1] == "no count: (hidden) does not open"
    entries = instance.all_logs(got.run_id)
    (stack,) = [
        entry.dagster_event.engine_event_data.error
        for entry in entries
        if entry.is_dagster_event
        and entry.dagster_event.is_engine_event
        and entry.dagster_event.engine_event_data.error
    ]
    assert "counted.py" in stack.to_string()
    assert not any(SECRET in dg.serialize_value(entry) for entry in entries)
    assert SECRET not in "".join(capfd.readouterr())


def test_a_process_that_dies_is_told_with_its_last_words(instance):
    got = ran(definitions(), instance, do="die")
    assert failure(got)[1] == (
        "the run's child process ended with code 137 before it had finished. Its last output:\nthe machine has no memory"
    )


def test_a_process_that_does_not_begin_is_told_with_what_it_printed(instance):
    defs = definitions(checks=[], command=lambda *_: [sys.executable, "-c", "raise SystemExit('Java is gone')"])
    got = ran(defs, instance)
    assert str(failure(got)[1]).endswith("Its last output:\nJava is gone")


def test_a_command_that_cannot_be_built_leaves_no_settings_behind(instance):
    folders = []

    def written_and_refused(settings, program, arguments, folder):
        folders.append(folder)
        (folder / "spark.properties").write_text(SECRET)
        raise KeyfoldError("no bin/spark-submit")

    assert not ran(definitions(checks=[], command=written_and_refused), instance).success
    assert [folder.exists() for folder in folders] == [False]


def test_an_interrupted_run_interrupts_its_process_which_ends_its_work_in_order(tmp_path):
    told = tmp_path / "told"
    with run_in_a_process(tmp_path, told) as run:
        work = process_at_work(told, run)
        run.send_signal(signal.SIGINT)
        run.wait(timeout=120)
    assert told.read_text() == "ended", "the work was interrupted, not killed"
    assert not lives(work)


def test_a_run_that_is_killed_leaves_no_process(tmp_path):
    told = tmp_path / "told"
    with run_in_a_process(tmp_path, told) as run:
        work = process_at_work(told, run)
        run.kill()
        run.wait(timeout=120)
        wait_until(lambda: not lives(work), "the process still works")
    assert told.read_text() == "ended"


def test_a_setting_that_is_none_is_told_when_definitions_load(tmp_path, monkeypatch):
    assert not is_submitted({})
    assert is_submitted({"KEYFOLD_RUNS": "spark-submit"})
    with pytest.raises(KeyfoldError, match=r"KEYFOLD_RUNS is 'pipes': give in-process .* or spark-submit"):
        is_submitted({"KEYFOLD_RUNS": "pipes"})
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(KeyfoldError, match=r"no bin/spark-submit"):
        is_submitted({"KEYFOLD_RUNS": "spark-submit"})


PROGRAM_OF_A_RUN = """
import sys
import dagster as dg
from tests.keyfold.dagster.submitted.test_submitted import definitions, ran
if __name__ == "__main__":
    from dagster._utils.interrupts import capture_interrupts
    with dg.DagsterInstance.ephemeral() as instance, capture_interrupts():
        ran(definitions(), instance, do="wait", told=sys.argv[1])
"""


class run_in_a_process:
    def __init__(self, folder, told):
        self._command = [sys.executable, "-c", PROGRAM_OF_A_RUN, str(told)]
        self._log = folder / "log"

    def __enter__(self):
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with self._log.open("wb") as log:
            self._run = subprocess.Popen(self._command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        return self._run

    def __exit__(self, *_):
        self._run.kill()
        self._run.wait()


def process_at_work(told, run):
    def number():
        assert run.poll() is None
        return int(told.read_text() or 0) if told.exists() else 0

    return wait_until(number, "the work has not begun")
