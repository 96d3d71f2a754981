"""Databases of events that stay open while a run writes to them."""

import os
from threading import Thread

import dagster as dg
import pytest
from dagster._core.storage.event_log.sqlite import sqlite_event_log

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
            instance.report_runless_asset_event(dg.AssetMaterialization("a"))
            assert {one.name for one in folder.glob("*.db-wal")} == {"index.db-wal", f"{run.run_id}.db-wal"}
        assert list(folder.glob("*.db-wal")) == []
        assert [one.message for one in instance.all_logs(run.run_id)] == ["written"]


def test_an_instance_without_files_runs_too():
    with dg.DagsterInstance.ephemeral() as instance, databases_kept_open(instance, "run"):
        assert worked.execute_in_process(instance=instance).success


def test_the_method_that_is_replaced_is_that_of_the_tested_version_of_dagster():
    # With another version, look whether `_connect` still takes the lock, creates the tables, and builds an engine each time.
    assert dg.__version__ == "1.13.27"


@pytest.fixture
def engines(monkeypatch):
    """The addresses of the engines that Dagster builds."""
    built, create = [], sqlite_event_log.create_engine
    monkeypatch.setattr(sqlite_event_log, "create_engine", lambda at, **more: built.append(at) or create(at, **more))
    return built


def test_dagster_builds_no_engine_for_an_event_of_the_run(tmp_path, engines):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run, other = instance.create_run_for_job(worked), instance.create_run_for_job(worked)
        with databases_kept_open(instance, run.run_id):
            engines.clear()
            for number in range(4):
                instance.report_engine_event(f"event {number}", run)
            instance.get_asset_keys()  # from the database of all runs
            assert engines == []
            instance.report_engine_event("of another run", other)
            assert len(engines) > 0
        engines.clear()
        instance.report_engine_event("after the run", run)
        assert len(engines) == 1
        assert len(instance.all_logs(run.run_id)) == 5


def test_threads_share_a_database_that_is_kept_open(tmp_path):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = instance.create_run_for_job(worked)

        def report() -> None:
            for _ in range(20):
                instance.report_engine_event("written", run)

        with databases_kept_open(instance, run.run_id):
            threads = [Thread(target=report) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(instance.all_logs(run.run_id)) == 80


def test_a_failed_transaction_is_rolled_back_and_the_database_stays_usable(tmp_path):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = instance.create_run_for_job(worked)
        with databases_kept_open(instance, run.run_id):
            instance.report_engine_event("first", run)
            with pytest.raises(ZeroDivisionError):
                _fail_after_deleting(instance.event_log_storage, run.run_id)
            instance.report_engine_event("second", run)
        assert [one.message for one in instance.all_logs(run.run_id)] == ["first", "second"]


def test_a_fork_opens_its_own_connections(tmp_path, engines):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        run = instance.create_run_for_job(worked)
        with databases_kept_open(instance, run.run_id):
            instance.report_engine_event("by the parent", run)
            engines.clear()
            child = os.fork()
            if child == 0:
                instance.report_engine_event("by the child", run)
                os._exit(0 if engines else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert [one.message for one in instance.all_logs(run.run_id)] == ["by the parent", "by the child"]


def _fail_after_deleting(storage, run_id):
    with storage.run_connection(run_id) as connection:
        connection.exec_driver_sql("DELETE FROM event_logs")
        raise ZeroDivisionError
