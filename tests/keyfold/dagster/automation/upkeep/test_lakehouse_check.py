"""The job that verifies the lakehouse: well, and with a file that is damaged."""

import polars as pl
import pyarrow as pa

from keyfold.dagster.automation.upkeep.lakehouse_check import lakehouse_check
from keyfold.dagster.resources import LakehouseResource
from keyfold.lakehouse import create_table
from keyfold.lakehouse.commits import append_files
from keyfold.lakehouse.data_files import write_data_file

JOB, _ = lakehouse_check()
SCHEMA = pa.schema([("number", pa.int64())])


def test_the_job_fails_where_a_file_is_damaged_and_names_it(lakehouse):
    table = lakehouse.monitoring("edits")
    create_table(table, SCHEMA)
    written = write_data_file(pl.DataFrame({"number": [1, 2, 3]}), table, SCHEMA)
    append_files(table, [written], "test", 0)
    resources = {"lakehouse": LakehouseResource(home=str(lakehouse.home))}
    assert JOB.execute_in_process(resources=resources).success
    (table / written.path).write_bytes(bytes(written.bytes))
    failed = JOB.execute_in_process(resources=resources, raise_on_error=False)
    [failure] = [event for event in failed.all_events if event.is_step_failure]
    assert written.path in str(failure.step_failure_data.user_failure_data)
