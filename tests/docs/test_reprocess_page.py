"""The page on reprocessing is run as it stands, in a project of `keyfold new`: a bug of a window, and what is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow.dataset as ds
from deltalake import DeltaTable

from keyfold import Lakehouse

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "reprocess.md").read_text(encoding="utf-8")
ORDERS = """shop,at,cents
rome,2026-01-05T09:10:00Z,1200
oslo,2026-01-05T09:40:00Z,800
rome,2026-01-06T09:20:00Z,2500
rome,2026-01-06T09:50:00Z,500
oslo,2026-01-06T11:05:00Z,900
"""


def matches(text, printed):
    """Whether lines are printed, where … stands for any text."""
    lines, printed = ("\n".join(map(str.rstrip, block.splitlines())) for block in (text, printed))
    pattern = ".*".join(re.escape(part.strip("\n")) for part in lines.split("…"))
    return re.search(pattern, printed, re.DOTALL)


def test_a_bug_is_corrected_as_the_page_says(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KEYFOLD_", "DAGSTER_"))}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "KEYFOLD_HOME": str(tmp_path / "lakehouse"),
        "KEYFOLD_RUNNER": "local",
        "COLUMNS": "300",
    }

    def run(command, folder):
        done = subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "orders.csv").write_text(ORDERS)
    run("keyfold new shop --from orders.csv --key shop", tmp_path)
    ((module, code),) = re.findall(r'```python title="your (.*?)"\n(.*?)```', PAGE, re.DOTALL)
    (tmp_path / "shop" / module).write_text(code)
    shown, done = re.findall(r"```sh\n(.*?)```\n\n```text\n(.*?)```|```sh\n(.*?)```\n\n```text", PAGE, re.DOTALL)[:2]
    for command, text in ((shown[0], shown[1]), (done[0], done[1])):
        printed = run(command, tmp_path / "shop")
        assert matches(text, printed), f"{text}\n---\n{printed}"
    # Read by others: one version, whose history says why.
    table = Lakehouse(tmp_path / "lakehouse").table("hourly_shop")
    delta = DeltaTable(str(table))
    rows = ds.dataset(delta.file_uris())
    assert duckdb.from_arrow(rows).order("euros").project("euros").fetchall() == [(0.8,), (1.2,), (30.0,)]
    assert delta.history(1)[0]["keyfold"].endswith(": cents, not mills")
