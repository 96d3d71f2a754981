"""What is damaged, lost or of another shape: the tools that write say what and where, and change nothing."""

import hashlib
import shutil

import polars as pl
import pyarrow as pa
import pytest

from keyfold.errors import KeyfoldError
from keyfold.journal.audit import Author
from keyfold.keyed.generation.live_record import live_generation_name
from keyfold.keyed.generation.run_mode import Replay
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.runners import Runners
from keyfold.runs.event_changes import erase
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.state.changing.moving import move
from keyfold.state.changing.promoting import promote
from keyfold.state.making.seeding import SeedSource, seed_job
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import land, live
from tests.shop import CLICKS

BY = Author("dpo@example.org", "request 17")


def files_below(folder):
    """Every file with what is in it; locks are no part of anything."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".lock")
    }


class Refused:
    """Sees that a call fails for a reason, and that what is live is what it was, file by file."""

    def __init__(self, lakehouse, why):
        self._lakehouse, self._raised = lakehouse, pytest.raises(KeyfoldError, match=why)

    def __enter__(self):
        self._before = self._state()
        return self._raised.__enter__()

    def __exit__(self, *error):
        told = self._raised.__exit__(*error)
        assert self._state() == self._before
        return told

    def _state(self):
        lakehouse = self._lakehouse
        return (
            (lakehouse.home / "live.json").read_text(),
            files_below(lakehouse.job("windows") / (live_generation_name(lakehouse, "windows") or "")),
            files_below(lakehouse.home / "tables"),
            files_below(lakehouse.events("clicks")),
            files_below(lakehouse.job("windows") / "branches"),
        )


@pytest.fixture(scope="module")
def ran_before(tmp_path_factory):
    """A lakehouse with a live generation of two batches, open windows, a written one and a late click."""
    lakehouse, without_spark = Lakehouse(tmp_path_factory.mktemp("ran") / "home"), Runners("local")
    land(lakehouse, ("ann", 1), ("bob", 2), ("cat", 22))
    run_job(lakehouse, windows(), runners=without_spark)
    land(lakehouse, ("ann", 3), ("cat", 23), ("bob", 24))
    run_job(lakehouse, windows(), runners=without_spark)
    return lakehouse


@pytest.fixture
def ran(lakehouse, ran_before):
    """A copy of that lakehouse, to be damaged."""
    shutil.copytree(ran_before.home, lakehouse.home)
    return lakehouse


def seed(tmp_path, name, content, **given):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return SeedSource(str(path), **given)


PARQUET = "seed.parquet cannot be read: .*; nothing was changed"
ANN = '{"user": "ann"}'


@pytest.mark.parametrize(
    ("name", "content", "given", "why"),
    [
        ("seed.parquet", b"PAR1 and then nothing of it", {}, PARQUET),
        ("seed.parquet", b"", {}, PARQUET),
        ("seed.jsonl", '{"user": "ann"}\n{"user": \n', {}, "seed.jsonl cannot be read: "),
        ("seed.jsonl", "", {}, "seed.jsonl cannot be read: "),
        ("seed.csv", "user,clicks\nann,1\nbob,2,3\n", {}, "seed.csv cannot be read: "),
        ("seed.csv", "", {}, "seed.csv cannot be read: "),
        ("seed.csv", b"user,clicks\n\xff\xfe\xfa,1\n", {}, "seed.csv cannot be read: |user is"),
        ("seed.csv", f"user,clicks\nann,{2**63}\n", {}, rf"clicks is no Int64 in 1 row \(row 1: '{2**63}'\)"),
        ("seed.xlsx", b"PK", {}, "holds no files of one kind that can be read"),
        ("seed.jsonl", f'{ANN}\n{{"user": null}}', {}, r"user is empty in 1 row \(row 2\)"),
        ("seed.jsonl", '{"user": "ann", "clicks": "many"}', {}, r"clicks is no Int64 in 1 row \(row 1: 'many'\)"),
        ("seed.jsonl", '{"user": "ann", "clicks": 1.5}', {}, r"clicks is no Int64 in 1 row \(row 1: 1.5\)"),
        ("seed.jsonl", '{"user": "ann", "deadline": 1767225600}', {}, "say what the numbers are with --map"),
        ("seed.jsonl", '{"user": "ann", "deadline": "soon"}', {}, r"deadline is no .* \(row 1: 'soon'"),
        ("seed.jsonl", '{"name": "ann"}', {}, "its state needs user, which the source does not have; it has name"),
        ("seed.jsonl", ANN, {"mapping": {"sessions": "1"}}, "keeps no column sessions; its state has user, window"),
        (
            "seed.jsonl",
            ANN,
            {"mapping": {"clicks": "count_of_clicks"}},
            "--map clicks=count_of_clicks: .*over the source's columns, user",
        ),
        (
            "seed.jsonl",
            ANN,
            {"mapping": {"clicks": "(SELECT z FROM read_csv('/etc/passwd'))"}},
            r"--map clicks=\(SELECT z FROM read_csv\('/etc/passwd'\)\): SELECT is not allowed",
        ),
        ("seed.jsonl", ANN, {"read_from": 99}, "has versions 0 to 2, and none 99"),
        ("seed.jsonl", ANN, {"read_from": -1}, "has versions 0 to 2, and none -1"),
    ],
)
def test_what_cannot_be_state_seeds_nothing(without_spark, ran, tmp_path, name, content, given, why):
    for yes in (False, True):
        with Refused(ran, why):
            seed_job(ran, windows(), seed(tmp_path, name, content, **given), yes=yes, runners=without_spark)


def test_a_delta_table_that_lost_a_file_seeds_nothing(without_spark, ran, tmp_path):
    folder = tmp_path / "seeds"
    pl.DataFrame({"user": ["ann"], "clicks": [1]}).write_delta(str(folder))
    (file,) = folder.glob("*.parquet")
    file.unlink()
    with Refused(ran, f"seeds cannot be read: .*{file.name}"):
        seed_job(ran, windows(), SeedSource(str(folder)), yes=True, runners=without_spark)


def test_a_seed_whose_events_were_never_ingested_says_what_to_do(without_spark, lakehouse, tmp_path):
    wanted = seed(tmp_path, "seed.jsonl", '{"user": "ann"}')
    with pytest.raises(KeyfoldError, match=r"events.clicks, which is not in .*keyfold ingest clicks"):
        seed_job(lakehouse, windows(), wanted, yes=True, runners=without_spark)


def damage_a_partition(generation):
    """Cut the manifests of a batch short, as a disk may."""
    path = max(generation.manifests.iterdir())
    path.write_bytes(path.read_bytes()[:-7])


WRITERS = {
    "move": lambda without_spark, lakehouse: move(lakehouse, windows(key_groups=9), yes=True, runners=without_spark),
    "edit": lambda without_spark, lakehouse: edit_state(
        lakehouse, windows(), Edit(("ann", "bob", "cat"), {"clicks": "clicks + 1"}, BY), yes=True, runners=without_spark
    ),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_state_that_is_damaged_is_named_and_nothing_is_rewritten(without_spark, ran, write):
    damage_a_partition(live(ran))
    with Refused(
        ran, "windows, generation-0001, batch 1: its state cannot be read: .*manifests of the state, is damaged"
    ):
        write(without_spark, ran)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (
            lambda generation: (generation.folder / "generation.json").unlink(),
            "names generation-0001 of job windows, which is gone",
        ),
        (lambda generation: (generation.folder / "generation.json").write_text("{"), "generation.json is damaged"),
        (lambda generation: shutil.rmtree(generation.table("windows")), "its table windows is gone from"),
        (
            lambda generation: next(generation.folder.glob("journal/*1.done.json")).write_text("{"),
            "journal.*done.json",
        ),
        (
            lambda generation: max((generation.table("late.windows") / "_delta_log").glob("*.json")).unlink(),
            "lacks its last batch, which the next run commits; run the job once first: `keyfold run windows`",
        ),
    ],
    ids=["the birth record", "half of it", "a table", "half of a commit record", "a table's last commit"],
)
def test_a_generation_that_is_not_whole_is_not_rewritten(without_spark, ran, write, lose, why):
    lose(live(ran))
    with Refused(ran, why):
        write(without_spark, ran)


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS.keys())
def test_a_run_that_was_cut_off_is_finished_first(without_spark, ran, cut_power, write):
    land(ran, ("dan", 26))
    assert cut_power("work: after", lambda: run_job(ran, windows(), runners=without_spark))
    with Refused(ran, "its last run was cut off; run the job once first: `keyfold run windows`"):
        write(without_spark, ran)
    run_job(ran, windows(), runners=without_spark)
    write(without_spark, ran)


@pytest.mark.parametrize(
    ("keys", "corrections", "why"),
    [
        ((), {"clicks": "1"}, "no keys are given"),
        (("zoe",), {"clicks": "1"}, "none of these keys has state"),
        (("bob",), {"user": "'ann'"}, "user cannot be set"),
        (("bob",), {"sessions": "1"}, "sessions cannot be set; the state's own columns are window, clicks, deadline"),
        (("bob",), {"clicks": "'many'"}, r"clicks is no Int64 in 1 row \(row 1: 'many'\)"),
        (("bob",), {"clicks": "count_of_clicks"}, "--set clicks=count_of_clicks"),
        (("bob",), {"clicks": "1 +"}, "--set clicks=1 \\+"),
        (("bob",), {"clicks": '"user"'}, "rows that cannot be state: clicks is no Int64 in 1 row"),
        (("bob",), {"clicks": "2.5"}, "clicks is no Int64 in 1 row"),
        (("bob",), {"clicks": "clicks / 4"}, "rows that cannot be state: clicks is no Int64 in 1 row"),
        (({"sessions": 1},), {}, "sessions: not in the key, whose columns are user"),
    ],
)
def test_an_edit_that_cannot_be_is_told_and_changes_nothing(without_spark, ran, keys, corrections, why):
    with Refused(ran, why):
        edit_state(ran, windows(), Edit(keys, corrections, BY), yes=True, runners=without_spark)


def test_a_correction_that_leaves_a_key_without_its_value_is_refused(without_spark, ran):
    strict = windows(state=windows().state.schema.set(2, pa.field("clicks", pa.int64(), nullable=False)))
    with Refused(ran, "rows that cannot be state: clicks is empty in 1 row .*, and may not be"):
        edit_state(ran, strict, Edit(("bob",), {"clicks": "NULL"}, BY), yes=True, runners=without_spark)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "say what is to be erased by columns of clicks, which are user, at, clicks, and not by nothing"),
        ({"customer": ["bob"]}, "which are user, at, clicks, and not by customer"),
        ({"clicks": ["many"]}, "clicks is Int64, and 'many' is not"),
    ],
)
def test_an_erasure_that_cannot_be_is_told_and_erases_nothing(without_spark, ran, values, why):
    with Refused(ran, why):
        erase(ran, CLICKS, [windows()], values, BY, yes=True, runners=without_spark)


def make_branch(without_spark, lakehouse):
    run_job(lakehouse, windows(), Replay("again"), runners=without_spark)
    return lakehouse.job("windows") / "branches" / "again"


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (lambda branch: (branch / "generation.json").unlink(), "has no branch 'again'"),
        (lambda branch: (branch / "generation.json").write_text("{"), "generation.json is damaged"),
        (
            lambda branch: shutil.rmtree(branch / "state"),
            "manifests of the state, is gone; make the branch again: `keyfold try windows again`",
        ),
        (lambda branch: next(branch.glob("journal/*.done.json")).write_text("{"), "journal.*done.json"),
        (lambda branch: shutil.rmtree(branch / "tables" / "windows"), "its table windows is gone from"),
    ],
    ids=["its birth record", "half of it", "its state", "half of a commit record", "a table"],
)
def test_a_branch_that_is_not_whole_is_not_promoted(without_spark, ran, lose, why):
    lose(make_branch(without_spark, ran))
    with Refused(ran, why):
        promote(ran, "windows", "again")


def test_a_branch_of_events_that_were_since_made_anew_is_not_promoted(without_spark, ran):
    make_branch(without_spark, ran)
    shutil.rmtree(ran.events("clicks"))
    land(ran, ("ann", 1))
    with Refused(ran, "events.clicks is not the table that it has read"):
        promote(ran, "windows", "again")
