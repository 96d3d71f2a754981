"""Jobs on jobs: clicks of each hour, and of each day by the table of hours, in one lakehouse."""

import shutil
from dataclasses import replace

import polars as pl
import pyarrow as pa

import keyfold
from keyfold import Input, KeyedJob, Step
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.state import State
from keyfold.keyed.job.tables import Append
from keyfold.stream import TIMESTAMP
from tests.lake import Lake
from tests.shop import CLICK, CLICKS, HOUR, NOON, USER, clicks

CLICKS_OF_HOUR = pa.schema([USER, pa.field("hour", TIMESTAMP, nullable=False), pa.field("clicks", pa.int64())])


def per_period(every):
    """A step that counts rows of each period once the watermark has passed its end."""

    def step(state, events, clock):
        time = "at" if "at" in events.columns else "hour"
        new = events.select("user", hour=pl.col(time).dt.truncate(every), clicks="clicks")
        counted = pl.concat([state.drop("deadline"), new]).group_by("user", "hour").agg(pl.col("clicks").sum())
        counted = counted.with_columns(deadline=pl.col("hour").dt.offset_by(every))
        over = pl.col("deadline") <= clock.watermark
        return Step(state=counted.filter(~over), output=counted.filter(over).drop("deadline"))

    return step


def counting(name, source, every, events, *more):
    state = State(CLICKS_OF_HOUR.append(pa.field("deadline", TIMESTAMP)), events=events)
    source = replace(source, final_at=pl.col(source.at).dt.truncate(every).dt.offset_by(every))
    return KeyedJob(
        name, source, "user", state, per_period(every), [Append(CLICKS_OF_HOUR, events=events), *more], key_groups=2
    )


OF_CLICKS = Input(CLICKS, "at", columns=CLICK, delay="5m")
HOURLY = counting("hourly", OF_CLICKS, "1h", pl.col("clicks").sum())
NO_EVENTS = pl.lit(0)


def adding_up(name, job, every, delay):
    """A job that adds up the rows of another one; their events are counted there."""

    return counting(
        name, Input(job.table(), "hour", columns=CLICKS_OF_HOUR, delay=delay, conserved=False), every, NO_EVENTS
    )


# A row's hour begins up to an hour before the watermark that lets it be written.
DAILY = adding_up("daily", HOURLY, "1d", HOUR)


class Chain:
    """A lakehouse with clicks, a job on them, and a job on that."""

    def __init__(self, folder, spark=None):
        self.lake = Lake(folder, spark)
        self.lakehouse, self.spark = self.lake.lakehouse, self.lake.session

    def copied(self, folder, spark):
        """One like it in another folder."""
        shutil.copytree(str(self.lakehouse.home), folder)
        other = Chain(folder, spark)
        other.lake.landed = self.lake.landed
        return other

    def click(self, *rows):
        """Have clicks of (user, minutes after NOON) land."""
        self.lake.land(CLICKS, clicks(*rows, since=NOON))

    def run(self, job, mode=None):
        return keyfold.run(self.lakehouse, job, mode or Incremental(), runners=self.spark)

    def table(self, name):
        return self.lake.rows(name, "user", "hour", "clicks")
