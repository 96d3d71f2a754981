"""State as runs left it: read, compared, and damaged."""

import json
from collections import Counter, defaultdict

import polars as pl
import pytest
from typer.testing import CliRunner

from keyfold.cli.state_commands import app
from keyfold.errors import KeyfoldError
from keyfold.keyed.calling.harness import TestHarness
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.state.differences import diff_with_table
from keyfold.state.reading.export import write_state
from keyfold.state.reading.reader import read_state
from tests.keyfold.keyed.toy_jobs import windows
from tests.lake import LOCAL
from tests.shop import clicks

BATCHES = [
    [("ann", 1), ("bob", 3), ("ann", 14), ("cat", 4)],
    [("dan", 15), ("bob", 16), ("eve", 16)],
    [("dan", 31), ("ann", 33), ("eve", 16)],
]
JOB = windows()


@pytest.fixture(scope="module")
def made(new_home) -> tuple[Lakehouse, list[pl.DataFrame]]:
    """Three runs of a job and a branch, in a home whose name has a blank; and what the harness holds after each run."""
    lakehouse = new_home("a home")
    lakehouse.events("clicks").parent.mkdir(parents=True)
    harness, states = TestHarness(JOB), []
    for batch in BATCHES:
        clicks(*batch).write_delta(str(lakehouse.events("clicks")), mode="append")
        run_job(lakehouse, JOB, runners=LOCAL)
        harness.batch(clicks(*batch))
        states.append(harness.state)
    run_job(lakehouse, JOB, Replay("all-at-once"), runners=LOCAL)
    return lakehouse, states


def by_key(state):
    keys = defaultdict(Counter)
    for user, *row in state.select(JOB.state.schema.names).rows():
        keys[user][tuple(row)] += 1
    return keys


def compared(before, after):
    """Plain Python: which keys came, went and changed."""
    was, now = by_key(before), by_key(after)
    return {
        **dict.fromkeys(now.keys() - was.keys(), "added"),
        **dict.fromkeys(was.keys() - now.keys(), "removed"),
        **{key: "changed" for key in was.keys() & now.keys() if was[key] != now[key]},
    }


def test_a_state_is_compared_with_a_table_in_the_columns_that_both_have(made, tmp_path):
    lakehouse, states = made
    write_state(read_state(lakehouse, JOB), tmp_path / "out")
    assert diff_with_table(read_state(lakehouse, JOB), lakehouse, str(tmp_path / "out")).summary().is_equal
    changed = states[-1].with_columns(clicks=pl.col("clicks") + 1, more=pl.lit("x")).drop("deadline")
    changed.write_csv(tmp_path / "rows.csv")
    summary = diff_with_table(read_state(lakehouse, JOB), lakehouse, str(tmp_path / "rows.csv")).summary()
    assert summary.changed == states[-1]["user"].n_unique()
    assert summary.columns == {"clicks": summary.changed}
    assert summary.not_compared == ("deadline", "more")
    pl.DataFrame({"city": ["x"]}).write_csv(tmp_path / "other.csv")
    with pytest.raises(KeyfoldError, match="has no column user, of the key"):
        diff_with_table(read_state(lakehouse, JOB), lakehouse, str(tmp_path / "other.csv"))
    with pytest.raises(KeyfoldError, match="nowhere is neither a path nor a table"):
        diff_with_table(read_state(lakehouse, JOB), lakehouse, "nowhere")


def test_a_table_that_needs_another_reader_is_refused_and_not_read_without_its_deletions(made, tmp_path):
    made[1][-1].write_delta(str(tmp_path / "table"))
    (entry,) = (tmp_path / "table" / "_delta_log").glob("*.json")
    features = ["deletionVectors"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    actions = [{"protocol": protocol} if "protocol" in action else action for action in actions]
    entry.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(KeyfoldError, match=r"table cannot be read: .*deletionVectors"):
        diff_with_table(read_state(made[0], JOB), made[0], str(tmp_path / "table"))


@pytest.fixture
def keyfold(made):
    """The commands."""

    def call(*words, code=0):
        result = CliRunner().invoke(app, [*words, "--home", str(made[0].home)])
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.output

    return call


def test_the_command_that_compares_prints_and_writes_how_two_batches_differ(keyfold, made, tmp_path):
    expected = compared(*made[1][:2])
    words = ("diff", "windows", "0", "1", "--rows", "9", "--to", str(tmp_path / "diff"), "--json")
    summary = json.loads(keyfold(*words))
    assert {row["user"]: row["change"] for row in summary["samples"]} == expected
    counts = Counter(expected.values())
    assert {change: summary[change] for change in counts} == counts
    assert dict(pl.read_parquet(tmp_path / "diff" / "*").select("user", "change").rows()) == expected
    assert "exists already" in keyfold(*words, code=1)


def test_the_command_compares_a_generation_with_its_branch(keyfold):
    # All at once, nothing is late: eve's third click counts, in a window that is over by now.
    printed = keyfold("diff", "windows", "all-at-once").splitlines()
    assert printed[0].startswith("before: job windows, all-at-once, batch 0")
    assert printed[1].startswith("after: job windows, generation-0001, batch 2")
    assert printed[2:5] == ["added: 0", "removed: 0", "changed: 0"]


def test_the_commands_say_what_is_wrong(keyfold):
    assert "retained: 0 to 2" in keyfold("read", "windows", "9", code=1)
    assert "not a batch number" in keyfold("diff", "windows", "live:x", code=1)
    assert "no job 'trips'" in keyfold("stats", "trips", code=2)
