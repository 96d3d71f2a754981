"""A trial of a share that is killed leaves the live tables as they are and is made again; Spark gives the same rows."""

from random import Random

import pytest

from keyfold.keyed.generation.generation_record import RECORD, read_record
from keyfold.keyed.generation.generations import Generation, branch_folder
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse.reading import scan_table
from keyfold.operators import count, windows
from keyfold.state.changing.trying import try_job
from tests.lake import LOCAL, Lake
from tests.power_cuts import OF_A_BATCH
from tests.shop import CLICKS

JOB = windows("hours", CLICKS, {"n": count()}, key="user", length="1h")
SEVERAL_BATCHES = RunOptions(max_bytes_per_batch=3_000)
POINTS = [
    *(point for point in OF_A_BATCH if point != "merge: rows written"),
    "generation: tables made",
    "generation: created",
]


def clicked(lake: Lake) -> None:
    random = Random(5)
    for _ in range(3):
        lake.click(*((f"user-{random.randrange(40)}", random.randrange(900)) for _ in range(150)))
    lake.run(JOB)


def rows_of_branch(lake: Lake, branch: str) -> list:
    folder = branch_folder(lake.lakehouse, "hours", branch)
    table = Generation(folder, read_record(folder / RECORD)).table("hours")
    return sorted(scan_table(table).collect().rows())


def play(lake: Lake, branch: str, runners=LOCAL):
    return try_job(lake.lakehouse, JOB, branch, share=0.4, options=SEVERAL_BATCHES, runners=runners)


@pytest.mark.parametrize("point", POINTS)
def test_a_trial_that_is_killed_changes_no_live_row_and_is_made_again(lake, cut_power, point):
    clicked(lake)
    live, generation = lake.rows("hours"), lake.live("hours").name
    play(lake, "whole")
    assert cut_power(point, lambda: play(lake, "again"))
    assert (lake.rows("hours"), lake.live("hours").name) == (live, generation)
    assert lake.run(JOB).counts.events == 0
    trial = play(lake, "again")
    assert rows_of_branch(lake, "again") == rows_of_branch(lake, "whole") != []
    assert trial.tables["hours"].summary().is_equal


def test_a_share_is_the_same_on_spark(lake, spark):
    clicked(lake)
    play(lake, "here")
    trial = play(lake, "there", spark)
    assert rows_of_branch(lake, "there") == rows_of_branch(lake, "here") != []
    assert trial.tables["hours"].summary().is_equal
