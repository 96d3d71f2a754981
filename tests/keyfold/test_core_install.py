"""Without the extra `spark`, nothing that works in one process needs pyspark or pandas, and what needs them says how to get them."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.commands import ended_well

ROOT = Path(__file__).parents[2]

BLOCKER = """
import sys
from importlib.machinery import PathFinder
find = PathFinder.find_spec
# As where they are not installed.
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in ("pyspark", "py4j", "pandas") else find(name, *more)
"""


def run(program: str, **variables: str) -> list[str]:
    environment = {
        name: value for name, value in os.environ.items() if "SPARK" not in name and name != "KEYFOLD_RUNNER"
    }
    done = ended_well(sys.executable, "-c", BLOCKER + program, folder=ROOT, environment={**environment, **variables})
    return done.stdout.splitlines()


def test_every_module_of_the_core_is_imported_without_pyspark_and_pandas():
    lines = run("""
import json
from importlib import import_module
from pathlib import Path
names = sorted(
    ".".join(path.with_suffix("").parts) for path in Path("keyfold").rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py") and "templates" not in path.parts and path.parts[1] != "dagster"
)
refused = {}
for name in names:
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        refused[name] = error.name
print(len(names), json.dumps(refused))
""")
    count, refused = lines[0].split(" ", 1)
    assert int(count) > 200
    of_spark = {
        "keyfold.session.start",
        "keyfold.session.worker_daemon",
        "keyfold.runners.spark_runner",
        "keyfold.runners.spark_frames",
    }
    assert set(json.loads(refused)) <= of_spark


def test_a_stream_is_ingested_a_job_run_and_its_tables_read_and_auto_says_why_it_stays_in_this_process(tmp_path):
    program = (ROOT / "README.md").read_text().partition("```python\n")[2].partition("```")[0]
    lines = run(f"""
import os
root = os.getcwd()
os.chdir({str(tmp_path)!r})
sys.path.insert(0, root)
exec({program!r}, {{}})
from keyfold import Runners
print(Runners("auto", local_below=0).reason(1 << 30))
assert not [name for name in ("pyspark", "pandas") if sys.modules.get(name)]
""")
    assert len(lines) > 3, "README's lines print a table"
    assert lines[-1] == (
        "local: 1,024.0 MiB are planned, but pyspark and pandas are not installed (pip install 'keyfold[spark]')"
    )


@pytest.mark.parametrize(
    "use",
    [
        "keyfold.Runners('spark').session",
        "keyfold.Runners('spark').spark",
        "keyfold.Runners('spark').for_bytes(0)",
        "from keyfold.session import build_session",
    ],
)
def test_what_needs_spark_says_how_to_install_it(use):
    lines = run(f"""
import keyfold
try:
    {use}
except keyfold.Misconfigured as error:
    print(error)
""")
    assert lines == [
        "Spark is needed, but pyspark and pandas are not installed (pip install 'keyfold[spark]'); or work in one process: "
        'Runners("local"), KEYFOLD_RUNNER=local'
    ]
