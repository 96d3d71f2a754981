"""Small jobs that put one promise of the engine each to the test."""

import dataclasses
from datetime import timedelta

import polars as pl
import pyarrow as pa

from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import STEP_DECIDES, Input
from keyfold.keyed.job.per_key import KeyAnswer, per_key
from keyfold.keyed.job.state import State
from keyfold.keyed.job.step import Clock, Step
from keyfold.keyed.job.tables import Append, Upsert
from keyfold.stream import TIMESTAMP
from tests.shop import CLICK, CLICKS, USER

WINDOW = pa.schema([("user", pa.string()), ("window", TIMESTAMP), ("clicks", pa.int64()), ("deadline", TIMESTAMP)])
WINDOW_TOTAL = pa.schema([("user", pa.string()), ("window", TIMESTAMP), ("clicks", pa.int64())])
LENGTH = timedelta(minutes=10)


def windows_step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Clicks of a user in each ten minutes."""
    came = events.select("user", pl.col("at").dt.truncate("10m").alias("window"), "clicks")
    merged = (
        pl.concat([state.drop("deadline"), came])
        .group_by("user", "window")
        .agg(pl.col("clicks").sum())
        .with_columns(deadline=pl.col("window") + LENGTH)
    )
    is_over = pl.col("deadline") <= clock.watermark
    return Step(state=merged.filter(~is_over), output=merged.filter(is_over).drop("deadline"))


def sum_clicks(events: pl.DataFrame) -> pl.DataFrame:
    window = pl.col("at").dt.truncate("10m").alias("window")
    return events.group_by("user", window).agg(pl.col("at").max(), pl.col("clicks").sum()).drop("window")


OF_INPUT = ("at", "delay", "final_at", "idle_timeout", "combine", "time_from")
OF_STATE = ("version", "migrations", "one_per_key")


def job_of(**settings) -> KeyedJob:
    """A job of one input whose settings are given side by side, so that a test can change one of them.

    Besides the fields of `Input` and `State`: `stream` and `columns` of events; `state` and `output`, the columns; `event_count`,
    `state_events` and `output_events`; `upsert_by`, the key of an upsert table, with `changes`; and `more` tables.
    """
    one = Input(
        settings.pop("stream"),
        columns=settings.pop("columns"),
        events=settings.pop("event_count", pl.len()),
        **{name: settings.pop(name) for name in OF_INPUT if name in settings},
    )
    state = State(
        settings.pop("state"),
        events=settings.pop("state_events", pl.len()),
        **{name: settings.pop(name) for name in OF_STATE if name in settings},
    )
    output, events, key = settings.pop("output"), settings.pop("output_events", pl.len()), settings.pop("upsert_by", ())
    changes = settings.pop("changes", False)
    main = Upsert(output, key, events=events, changes=changes) if key else Append(output, events=events)
    return KeyedJob(inputs=one, state=state, tables=[main, *settings.pop("more", ())], **settings)


def windows(**changes) -> KeyedJob:
    settings = {
        "name": "windows",
        "stream": CLICKS,
        "key": "user",
        "delay": "5m",
        "final_at": pl.col("at").dt.truncate("10m") + LENGTH,
        "columns": CLICK,
        "state": WINDOW,
        "output": WINDOW_TOTAL,
        "step": windows_step,
        "key_groups": 4,
        "output_events": pl.col("clicks").sum(),
        "state_events": pl.col("clicks").sum(),
    }
    return job_of(**{**settings, **changes})


def windows_per_key(**changes) -> KeyedJob:
    def handle(key, state, events, clock):
        counts = {row["window"]: row["clicks"] for row in state}
        for event in events:
            window = event["at"].replace(minute=event["at"].minute // 10 * 10, second=0, microsecond=0)
            counts[window] = counts.get(window, 0) + event["clicks"]
        rows = [{"window": window, "clicks": count, "deadline": window + LENGTH} for window, count in counts.items()]
        return KeyAnswer(
            state=[row for row in rows if row["deadline"] > clock.watermark],
            output=[
                {"window": row["window"], "clicks": row["clicks"]} for row in rows if row["deadline"] <= clock.watermark
            ],
        )

    return windows(step=per_key(handle), **changes)


NOTE = pa.schema([*CLICK, ("deadline", TIMESTAMP)])


def notes_step(state: pl.DataFrame, events: pl.DataFrame, clock: Clock) -> Step:
    """Clicks, each a row that is due at the next full ten minutes; a minute that ends in 7 has all rows of its user given out.

    So has a user of whom three rows or more are due: of fewer they stay, and are due again.
    """
    is_due = pl.col("deadline") <= clock.watermark
    many = state.filter(is_due).group_by("user").len().filter(pl.col("len") > 2).select("user")
    ended = events.filter(pl.col("at").dt.minute() % 10 == 7).group_by("user").agg(ended=pl.col("at").max())
    dropped = pl.concat([many, ended.select("user")]).unique()
    new = events.sort("at", "clicks").join(ended, on="user", how="left", maintain_order="left")
    is_over = (pl.col("at") < pl.col("ended")).fill_null(value=False)
    over, new = (new.filter(where).drop("ended") for where in (is_over, ~is_over))
    new = new.with_columns(
        deadline=pl.when(pl.col("at").dt.minute() % 2 == 0).then(pl.col("at").dt.truncate("10m") + LENGTH)
    )
    output = pl.concat([state.join(dropped, on="user", how="semi").drop("deadline"), over])
    return Step(add=new, drop=dropped, output=output)


def notes(**changes) -> KeyedJob:
    """A job that adds to its state, and drops from it, in place of writing all of it."""
    settings = {
        "name": "notes",
        "step": notes_step,
        "state": NOTE,
        "output": CLICK,
        "final_at": STEP_DECIDES,
        "output_events": pl.len(),
        "state_events": pl.len(),
    }
    return windows(**{**settings, **changes})


TOTAL = pa.schema([USER, ("clicks", pa.int64())])


def totals(**changes) -> KeyedJob:
    """Clicks of each user so far: an upsert table, and a side output that is appended to."""

    def step(state, events, clock):
        changed = events.group_by("user").agg(pl.col("clicks").sum())
        summed = pl.concat([state, changed]).group_by("user").agg(pl.col("clicks").sum())
        touched = summed.join(changed, on="user", how="semi")
        return Step(state=summed, output=touched, side={"changes": changed})

    settings = {
        "name": "totals",
        "step": step,
        "state": TOTAL,
        "output": TOTAL,
        "upsert_by": "user",
        "more": (Append(TOTAL, name="changes"),),
        "final_at": "at",
        "state_events": pl.lit(0),
    }
    return windows(**{**settings, **changes})


NOTED = TOTAL.append(pa.field("note", pa.string()))


def with_note(step):
    """A step whose output has one column more."""

    def noted(state, events, clock):
        made = step(state, events, clock)
        return dataclasses.replace(made, output=made.output.with_columns(note=pl.lit("new")))

    return noted
