"""The state tools as Dagster jobs: what the launchpad refuses, and what a run does. Without Spark."""

import json
import stat
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from deltalake import DeltaTable

from keyfold.dagster.automation.state.state_tools import STATE_TOOLS
from keyfold.dagster.automation.state.tokens import FILE
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.rows.codec import polars_schema
from keyfold.keyed.runner import run_job
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import SALES
from tests.keyfold.keyed.toy_jobs import START
from tests.lake import Lake

JOB = "purchase_totals"
state_bootstrap, state_move, _, state_promote, _, state_edit, state_erase = STATE_TOOLS


@pytest.fixture
def sales(lakehouse):
    """Purchases of items, one a minute."""

    def sales(*items):
        table = lakehouse.events("sales")
        create_table(table, SALES.schema)
        kinds = polars_schema(SALES.schema)
        values = {"item": list(items), "quantity": [2] * len(items), SALES.event_time: [START] * len(items)}
        given = pl.DataFrame({name: value for name, value in values.items() if name in kinds})
        frame = given.with_columns(pl.lit(None).alias(name) for name in kinds if name not in given.columns)
        frame = frame.select(pl.col(name).cast(kind) for name, kind in kinds.items())
        append_files(table, [write_data_file(frame, table, SALES.schema)], "ingest", DeltaTable(str(table)).version())

    return sales


@pytest.fixture
def instance():
    with dg.DagsterInstance.local_temp() as temporary:
        yield temporary


def run(tool, config, spark, lakehouse, instance=None):
    node = tool.graph.nodes[0].name
    return tool.execute_in_process(
        run_config={"ops": {node: {"config": config}}},
        resources={"spark": spark, "lakehouse": lakehouse},
        instance=instance,
        raise_on_error=False,
    )


def token_of(instance):
    """As somebody reads it who can read Keyfold's files."""
    return json.loads((Path(instance.root_directory) / FILE).read_text())["token"]


def failure(result):
    (failed,) = [one for one in result.all_events if one.is_step_failure]
    assert failed.step_failure_data.error is not None
    return failed.step_failure_data.error.to_string()


def told(result) -> dict[str, Any]:
    (event,) = [one for one in result.all_events if one.event_type_value == "STEP_OUTPUT"]
    return {
        name: getattr(value, "data", None) or value.value for name, value in event.event_specific_data.metadata.items()
    }


def config_of(tool, config):
    return dg.validate_run_config(tool, {"ops": {tool.graph.nodes[0].name: {"config": config}}})


@pytest.mark.parametrize("tool", STATE_TOOLS, ids=lambda tool: tool.name)
def test_a_tool_is_not_started_without_its_job_s_name_written_twice(tool, state_without_spark, lakehouse):
    named = {"stream": "sales"} if tool is state_erase else {"job": JOB}
    with pytest.raises(dg.DagsterInvalidConfigError, match="confirm"):
        config_of(tool, named)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"job": JOB, "confirm": "ride_summaries", "branch": "b"}, "repeat the job's name, purchase_totals"),
        ({"job": "nothing", "confirm": "nothing", "branch": "b"}, "no job 'nothing'; known jobs: "),
    ],
)
def test_a_wrong_name_fails_the_run_before_anything_is_touched(state_without_spark, lakehouse, config, why):
    assert why in failure(run(state_promote, config, state_without_spark, lakehouse))


def test_a_job_is_seeded_moved_edited_and_its_branch_promoted_from_the_launchpad(
    state_without_spark, lakehouse, sales, instance
):
    spark = state_without_spark
    sales("Mac", "Watch")
    seed = pl.DataFrame([{"item": "Mac", "quantity": 40, "models": ["Air"]}])
    seed.write_delta(str(lakehouse.home / "open" / "totals"))
    common = {"job": JOB, "confirm": JOB}
    wanted = {**common, "source": "open.totals", "from_version": "start"}
    shown = told(run(state_bootstrap, wanted, spark, lakehouse, instance))
    assert (shown["generation"], shown["checked"]["keys"], shown["new_rows"]) == ("none", 1, 2)
    assert live_generation(lakehouse, JOB) is None
    confirmed = {**wanted, "dry_run": False, "token": token_of(instance)}
    done = told(run(state_bootstrap, confirmed, spark, lakehouse, instance))
    assert done["generation"] == "generation-0001"
    job = configured_job(lakehouse, JOBS[JOB])
    run_job(spark, lakehouse, job)
    totals = pl.read_delta(str(lakehouse.table("latest_purchase_totals"))).sort("item")
    assert totals["quantity"].to_list() == [42, 2]

    grouped = {**common, "parameters": {"key_groups": "9"}}
    planned = told(run(state_move, grouped, spark, lakehouse))
    assert (planned["verdict"], planned["generation"]) == ("move", "generation-0001")
    moved = told(run(state_move, {**grouped, "dry_run": False}, spark, lakehouse))
    assert (moved["generation"], moved["state_rows"]) == ("generation-0002", 2)

    run_job(spark, lakehouse, configured_job(lakehouse, JOBS[JOB]), Replay("again"))
    promoted = told(run(state_promote, {**common, "branch": "again"}, spark, lakehouse))
    assert promoted["generation"] == "generation-0003"
    live = Lake(lakehouse).live(JOB)
    assert live.name == "generation-0003"


def test_an_edit_asks_for_keys_and_for_who_and_why(state_without_spark, lakehouse, sales):
    sales("Mac")
    run_job(state_without_spark, lakehouse, configured_job(lakehouse, JOBS[JOB]))
    common = {"job": JOB, "confirm": JOB, "keys": ["Mac"], "remove": True, "who": " ", "why": "because"}
    result = run(state_edit, common, state_without_spark, lakehouse)
    assert "--who is empty" in failure(result)


def test_what_cannot_be_undone_asks_for_the_token_of_a_dry_run_of_the_same_config(
    state_without_spark, lakehouse, sales, instance
):
    spark = state_without_spark
    sales("Mac", "Watch")
    run_job(spark, lakehouse, configured_job(lakehouse, JOBS[JOB]))
    erasure = {"stream": "sales", "confirm": "sales", "values": {"item": ["Mac"]}, "who": "ann", "why": "asked for"}

    def items():
        return set(pl.read_delta(str(lakehouse.events("sales")))["item"])

    def refused(**given):
        error = failure(run(state_erase, {**erasure, "dry_run": False, **given}, spark, lakehouse, instance))
        assert "requires a token" in error
        assert items() == {"Mac", "Watch"}

    refused()
    refused(token="anything")  # noqa: S106
    shown = run(state_erase, erasure, spark, lakehouse, instance)
    file, token = Path(instance.root_directory) / FILE, token_of(instance)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert str(file) in str(told(shown)["token"])
    # Nowhere but in the file: not in the run's records either, which the pages show.
    assert token not in str(instance.all_logs(shown.run_id)) + str(told(shown))
    refused()
    refused(token=token, values={"item": ["Watch"]})
    refused(token=token, why="something else")
    edit = {"job": JOB, "confirm": JOB, "keys": ["Mac"], "remove": True, "who": "ann", "why": "asked for"}
    assert "requires a token" in failure(
        run(state_edit, {**edit, "dry_run": False, "token": token}, spark, lakehouse, instance)
    )
    assert run(state_erase, {**erasure, "dry_run": False, "token": token}, spark, lakehouse, instance).success
    assert items() == {"Watch"}
    # It stands in a run's config by now, and is worth nothing.
    again = run(state_erase, {**erasure, "dry_run": False, "token": token}, spark, lakehouse, instance)
    assert "requires a token" in failure(again)


@pytest.mark.parametrize("source", ["/etc/passwd", "../seed.jsonl", "s3a://bucket/seed", "file:///etc/passwd", "none"])
def test_a_run_config_seeds_from_tables_alone(state_without_spark, lakehouse, sales, source):
    sales("Mac")
    config = {"job": JOB, "confirm": JOB, "source": source, "from_version": "start"}
    assert "a run config may not name a file" in failure(run(state_bootstrap, config, state_without_spark, lakehouse))


def test_a_run_config_gives_a_job_no_path(state_without_spark, lakehouse):
    name = "fleet_warnings"
    config = {"job": name, "confirm": name, "parameters": {"geofences": "/etc/passwd"}}
    assert "a run config may not name a file" in failure(run(state_move, config, state_without_spark, lakehouse))


@pytest.mark.parametrize("branch", ["../generation-0001", "a/b", "..", "/etc", ""])
def test_a_branch_s_name_leads_nowhere_else(state_without_spark, lakehouse, branch):
    config = {"job": JOB, "confirm": JOB, "branch": branch}
    assert "a name has lower-case letters" in failure(run(state_promote, config, state_without_spark, lakehouse))
