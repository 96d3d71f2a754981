"""The code of *Use Great Expectations as asset checks* works as it stands, with nothing else of Keyfold."""

import re
import sys
from pathlib import Path

from tests.commands import ended_well

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "check-any-table.md"
RUN = """
import sys
import dagster as dg
from fares import defs

with dg.DagsterInstance.ephemeral() as instance:
    job = defs.resolve_implicit_global_asset_job_def()
    for tags in ({}, {}, {"gx/scope": "full"}):
        result = job.execute_in_process(instance=instance, tags=tags)
        for found in sorted(result.get_asset_check_evaluations(), key=lambda one: one.check_name):
            print(found.check_name, found.passed, found.severity.value, found.blocking, found.metadata["rows"].value)
print(sorted(name for name in sys.modules if name.startswith("keyfold.") and not name.startswith("keyfold.dagster")))
"""


def test_checks_of_the_page_see_new_rows_or_all_and_block_by_severity(tmp_path):
    (code,) = re.findall(r'```python title="fares.py"\n(.*?)```', PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "fares.py").write_text(code)
    (tmp_path / "run.py").write_text(RUN)
    *lines, modules = ended_well(sys.executable, "run.py", folder=tmp_path).stdout.splitlines()
    assert lines == [
        line
        for rows in (2, 2, 6)
        for line in (f"city_is_there True ERROR True {rows}", f"fare_is_positive False WARN False {rows}")
    ]
    assert modules == "['keyfold.errors', 'keyfold.lazy_names', 'keyfold.sql_bounds']"
