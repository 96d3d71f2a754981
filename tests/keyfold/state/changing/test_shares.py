"""A share of the keys is played as in a trial of all keys: the same rows of the same keys, and no row of another key is named."""

import hashlib
from datetime import UTC, datetime
from random import Random

import polars as pl
import pyarrow as pa
import pytest
import xxhash

from keyfold import STEP_DECIDES, Input, Lakehouse, Step, Stream
from keyfold.errors import KeyfoldError
from keyfold.keyed.generation.generation_record import RECORD, read_record
from keyfold.keyed.generation.generations import Generation, branch_folder
from keyfold.keyed.job_run import RunOptions, run_job
from keyfold.lakehouse import is_table
from keyfold.lakehouse.reading import scan_table
from keyfold.operators import count, interval_join, sessions, windows
from keyfold.state.changing.promoting import promote
from keyfold.state.changing.trying import Trial, try_job, try_with_consumers
from keyfold.stream import TIMESTAMP
from keyfold.stream.refined import PartOf
from tests.chained_jobs import DAILY, HOURLY, Chain
from tests.keyfold.keyed import toy_jobs
from tests.keyfold.state.job_histories import HISTORIES, put
from tests.lake import LOCAL, Lake
from tests.shop import CLICKS, USER, clicks

SHARE = 0.3
OUTSIDE = "somebody"
SEVERAL_BATCHES = RunOptions(max_bytes_per_batch=4_000)
PLAYED = [history for history in HISTORIES if history.given.get("timeout_in") != "processing_time"]


def is_in_share(share: float, *values: object) -> bool:
    """Whether a key is in a share, in plain Python."""
    text = "\x1f".join(str(value) for value in values)
    return xxhash.xxh64_intdigest(text.encode()) // 65_536 % 1_000_000 < round(share * 1_000_000)


def rows_of(generation: Generation, table: str) -> list[dict]:
    place = generation.table(table)
    return scan_table(place).collect().to_dicts() if is_table(place) else []


def sorted_rows(rows: list[dict]) -> list[str]:
    return sorted(map(repr, rows))


def branch_of(lakehouse: Lakehouse, job: str, branch: str) -> Generation:
    folder = branch_folder(lakehouse, job, branch)
    return Generation(folder, read_record(folder / RECORD))


@pytest.mark.parametrize("history", PLAYED, ids=str)
def test_a_share_of_a_trial_has_the_rows_of_its_keys_and_names_no_other(tmp_path, history):
    lakehouse, job, parts = Lakehouse(tmp_path), history.job(), history.parts()
    for part in parts[:3]:
        put(lakehouse, job.only_input.stream.name, part)
    run_job(lakehouse, job, runners=LOCAL)
    put(lakehouse, job.only_input.stream.name, parts[3])
    trials = {
        branch: try_job(lakehouse, job, branch, share=share, options=SEVERAL_BATCHES, runners=LOCAL)
        for branch, share in (("whole", None), ("part", SHARE))
    }
    whole, part = (branch_of(lakehouse, job.name, branch) for branch in trials)
    assert len(trials["part"].run.batch_seconds) == len(trials["whole"].run.batch_seconds) > 1
    live, compared = Lake(lakehouse).live(job.name), trials["part"].tables
    assert compared
    for table in (table.name for table in job.tables):
        if table not in compared:
            assert any(f"table {table}: " in reason for reason in trials["part"].not_compared)
            continue
        expected, before = (
            [row for row in rows_of(side, table) if is_in_share(SHARE, *_as_text(job, row))] for side in (whole, live)
        )
        assert sorted_rows(rows_of(part, table)) == sorted_rows(expected)
        assert compared[table].summary().is_equal == (sorted_rows(before) == sorted_rows(expected))
        for rows in compared[table].frames():
            assert all(is_in_share(SHARE, *_as_text(job, row)) for row in rows.to_dicts())


OTHERS = Stream(
    "others",
    pa.schema([USER, pa.field("paid_at", TIMESTAMP, nullable=False), ("amount", pa.int64())]),
    event_time="paid_at",
)
PARTED = CLICKS.derive(part=PartOf(("user",), 40))
KEYED_OTHERWISE = {
    "computed": windows("w", PARTED, {"n": count()}, key="part", length="1h"),
    "copied": windows("w", CLICKS.explode("tag", pl.concat_list("user", pl.lit("all"))), {"n": count()}, key="tag", length="1h"),
    "two columns": sessions("w", CLICKS.where(pl.col("clicks").is_not_null()), {"n": count()}, key=("user", "clicks"), gap="30m"),
    "joined": interval_join("w", ("clicks", Input(CLICKS, columns=("user", "at", "clicks"))), ("others", Input(OTHERS.where(pl.col("amount") > 1), columns=("user", "paid_at", "amount"))), key="user", earliest="-1h", latest="1h"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYED_OTHERWISE)
@pytest.mark.parametrize("seed", range(3))
def test_keys_that_are_computed_copied_or_joined_are_shared_as_such(tmp_path, name, seed):
    job, lake, random = KEYED_OTHERWISE[name], Lake(tmp_path), Random(seed)
    for _ in range(4):
        rows = [(f"user-{random.randrange(60)}", random.randrange(600)) for _ in range(random.randrange(20, 200))]
        lake.put(clicks(*rows))
        lake.put(
            clicks(*rows[::3])
            .rename({"clicks": "amount", "at": "paid_at"})
            .with_columns(amount=pl.lit(random.randrange(2, 9))),
            "others",
        )
        if random.random() < 0.6:
            lake.run(job)
    lake.run(job)
    trials = {
        share: try_job(
            lake.lakehouse,
            job,
            f"b{share or 'all'}".replace(".", ""),
            share=share,
            options=SEVERAL_BATCHES,
            runners=LOCAL,
        )
        for share in (None, 0.2)
    }
    whole, part = (branch_of(lake.lakehouse, "w", trial.branch) for trial in trials.values())
    rows = [row for row in rows_of(whole, "w") if is_in_share(0.2, *_as_text(job, row))]
    assert sorted_rows(rows_of(part, "w")) == sorted_rows(rows)
    assert 0 <= len(rows) < len(rows_of(whole, "w"))
    assert trials[0.2].not_compared == ()


def test_a_branch_of_a_share_is_never_promoted(lake):
    lake.click(("ann", 1), ("bob", 25))
    lake.run(toy_jobs.windows())
    try_job(lake.lakehouse, toy_jobs.windows(), "part", share=0.5, runners=LOCAL)
    with pytest.raises(KeyfoldError, match=r"has 50.* of the keys only.*make the branch again without --share"):
        promote(lake.lakehouse, "windows", "part")
    for share in (0, -1, 1.5, float("nan")):
        with pytest.raises(KeyfoldError, match="give a number above 0 and at most 1"):
            try_job(lake.lakehouse, toy_jobs.windows(), "part", share=share, runners=LOCAL)


def test_a_table_without_the_key_is_not_compared(lake):
    def anonymous(state, events, clock):
        return Step(state=state, output=events.select(window="at", clicks="clicks"))

    columns = pa.schema([field for field in toy_jobs.WINDOW_TOTAL if field.name != "user"])
    job = toy_jobs.windows(step=anonymous, final_at=STEP_DECIDES, output=columns)
    lake.click(*((f"user-{number}", number) for number in range(50)))
    lake.run(job)
    trial = try_job(lake.lakehouse, job, "part", share=0.5, runners=LOCAL)
    no_key = "it has no column user, by which rows of the share are told from others"
    assert (trial.not_compared, [*trial.tables]) == ((f"table windows: {no_key}",), ["late.windows"])


def test_a_column_with_the_name_of_the_key_that_is_not_the_key_is_not_taken_for_it(lake):
    def swapped(state, events, clock):
        return Step(state=state, output=events.select(user=pl.lit(OUTSIDE), window="at", clicks="clicks"))

    job = toy_jobs.windows(step=swapped, final_at=STEP_DECIDES)
    lake.click(*((f"user-{number}", number) for number in range(50)))
    lake.run(job)
    assert not is_in_share(0.5, OUTSIDE)
    trial = try_job(lake.lakehouse, job, "part", share=0.5, runners=LOCAL)
    assert "its user is not the key of the events" in trial.not_compared[0]


def _as_text(job, row):
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return [
        (value - epoch) // (datetime.resolution) if isinstance(value, datetime) else value
        for value in (row[name] for name in job.key)
    ]


def keyed_by_hour():
    """A job on the hours of users, by hour."""
    hours = HOURLY.table().derive(slot=pl.col("hour").dt.hour())
    return windows("by_hour", Input(hours, at="hour", delay="1h"), {"n": count()}, key="slot", length="1d")


def test_consumers_are_played_over_the_branch_for_the_same_keys_if_they_are_keyed_alike(tmp_path):
    chain = Chain(tmp_path)
    by_hour = keyed_by_hour()
    for day in range(4):
        chain.click(*((f"user-{number % 40}", day * 1_440 + number * 7) for number in range(200)))
        for job in (HOURLY, DAILY, by_hour):
            chain.run(job)
    consumers = [DAILY, by_hour]
    trials = {}
    for branch, share in (("whole", None), ("part", SHARE)):
        trial = try_job(chain.lakehouse, HOURLY, branch, share=share, runners=LOCAL)
        trials[branch] = [*try_with_consumers(chain.lakehouse, trial, consumers, runners=LOCAL)]
    daily, other = trials["part"]
    assert isinstance(daily, Trial)
    assert isinstance(other, str)
    assert other == (
        "job by_hour: it is keyed by slot, and the share is of user: its keys would have a part of their events only"
    )
    whole, part = (branch_of(chain.lakehouse, "daily", branch) for branch in trials)
    rows = [row for row in rows_of(whole, "daily") if is_in_share(SHARE, row["user"])]
    assert sorted_rows(rows_of(part, "daily")) == sorted_rows(rows)
    assert 0 < len(rows) < len(rows_of(whole, "daily"))
    assert all(isinstance(result, Trial) for result in trials["whole"])


def digest_of(home) -> str:
    """All files of a folder with their content and their times."""
    files = sorted(path for path in home.rglob("*") if path.is_file())
    parts = [f"{path} {path.stat().st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files]
    return "\n".join([*parts, *sorted(str(path) for path in home.rglob("*") if path.is_dir())])


def test_a_trial_against_another_lakehouse_reads_it_and_changes_nothing_there(tmp_path):
    chain = Chain(tmp_path / "production")
    for day in range(3):
        chain.click(*((f"user-{number % 40}", day * 1_440 + number * 7) for number in range(200)))
        for job in (HOURLY, DAILY):
            chain.run(job)
    before = digest_of(tmp_path / "production")
    scratch = Lakehouse(tmp_path / "scratch").reading(chain.lakehouse)
    for job in (HOURLY, DAILY):
        trial = try_job(scratch, job, "pr", share=SHARE, runners=LOCAL)
        assert trial.run.counts.events > 0
        assert trial.tables[job.name].summary().is_equal
    trial = try_job(scratch, HOURLY, "pr", runners=LOCAL)
    (daily,) = try_with_consumers(scratch, trial, [DAILY], runners=LOCAL)
    assert isinstance(daily, Trial)
    assert daily.tables["daily"].summary().is_equal
    assert digest_of(tmp_path / "production") == before
    assert (tmp_path / "scratch" / "jobs" / "hourly" / "branches" / "pr").is_dir()
    with pytest.raises(KeyfoldError, match="has never run"):
        try_job(Lakehouse(tmp_path / "scratch").reading(Lakehouse(tmp_path / "none")), HOURLY, "pr", runners=LOCAL)


def test_an_event_without_a_key_is_refused_of_a_share_as_of_all_keys(lake):
    lake.click(("ann", 1))
    lake.run(toy_jobs.windows())
    lake.click((None, 2))
    for share in (None, 0.001):
        with pytest.raises(KeyfoldError, match="rows without a value in user"):
            try_job(lake.lakehouse, toy_jobs.windows(), "part", share=share, runners=LOCAL)
