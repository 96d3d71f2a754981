"""Databases of events that stay open while a run writes to them."""

import dagster as dg

from keyfold.dagster.automation.upkeep.open_databases import databases_kept_open


@dg.op
def work() -> None: ...


@dg.job
def worked() -> None:
    work()


def test_the_log_of_an_open_database_is_moved_into_it_only_at_the_end_of_the_run(tmp_path):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = instance.create_run_for_job(worked)
        folder = tmp_path / "history" / "runs"
        with databases_kept_open(instance, run.run_id):
            instance.report_engine_event("written", run)
            assert {one.name for one in folder.glob("*.db-wal")} == {"index.db-wal", f"{run.run_id}.db-wal"}
        assert list(folder.glob("*.db-wal")) == []
        assert [one.message for one in instance.all_logs(run.run_id)] == ["written"]


def test_an_instance_without_files_runs_too():
    with dg.DagsterInstance.ephemeral() as instance, databases_kept_open(instance, "run"):
        assert worked.execute_in_process(instance=instance).success
