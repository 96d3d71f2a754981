"""Every argument of what operators and jobs are declared with, each with another value; see `declared_operators`."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pyarrow as pa

from keyfold import (
    STEP_DECIDES,
    Append,
    EventTimeParameters,
    FileFormat,
    Input,
    JobParameters,
    KeyedJob,
    Lookup,
    RowTimes,
    Rule,
    Source,
    State,
    Step,
    Stream,
    Timeout,
    Upsert,
    Window,
    parameter,
    per_key,
    required,
    with_parameters,
)
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.per_key import KeyAnswer
from keyfold.keyed.job.state import StoredAggregates
from keyfold.operators import (
    Calendar,
    First,
    Held,
    Highest,
    Last,
    Lateness,
    Listed,
    Next,
    Pattern,
    Then,
    Top,
    Until,
    While,
    Without,
    alert,
    collect,
    count,
    count_distinct,
    distinct,
    divided,
    first,
    last,
    last_n,
    lookup_join,
    max,
    mean,
    min,
    over_pairs,
    pattern,
    quantile,
    rows,
    running,
    sessions,
    sum,
    sum_of_decreases,
    windows,
)
from keyfold.stream.refined import PartOf, Refinable
from tests.keyfold.keyed.generation.declaring import EVENT, KIND, KM, OTHERS, RIDES, Changed, Declared, N

TOTAL = pa.schema([required("user", pa.string(), "Who"), ("n", pa.int64())])


def counting(state, events, clock):
    return Step(state=state, output=events.group_by("user").agg(pl.len().cast(pl.Int64).alias("n")))


def summing(state, events, clock):
    return Step(state=state, output=events.group_by("user").agg(pl.col("n").sum()))


def one_key(key, state, events, clock):
    return KeyAnswer(state=[{"n": len(events)}])


def another_key(key, state, events, clock):
    return KeyAnswer(state=[{"n": len(events) + 1}])


def is_near(events):
    return events.select(row=pl.int_range(pl.len()), subject=pl.lit("a"), begins=pl.lit(value=True))


def is_far(events):
    return events.select(row=pl.int_range(pl.len()), subject=pl.lit("b"), begins=pl.lit(value=True))


def by_user(events):
    return events.group_by("user").agg(pl.all().last())


def by_user_and_kind(events):
    return events.group_by("user", "kind").agg(pl.all().last()).select(events.columns)


def job_of(**given: Any) -> KeyedJob:
    declared = {
        "name": "jobs",
        "inputs": Input(RIDES, final_at="at"),
        "key": "user",
        "state": TOTAL,
        "step": counting,
        "tables": Append(TOTAL),
    }
    return KeyedJob(**{**declared, **given})


def of_input(declared: Any) -> KeyedJob:
    return job_of(inputs=declared)


def of_refined(declared: Any) -> KeyedJob:
    return windows("w", declared, {"n_rides": count()}, key="user", length="1h")


def of_stream(stream: Stream) -> KeyedJob:
    return job_of(inputs=Input(stream, final_at=stream.event_time))


def of_lookup(lookup: Lookup) -> KeyedJob:
    return lookup_join("named", Input(RIDES, columns=("user", "at", "kind")), ("people", lookup))


def of_aggregate(aggregate: Any) -> KeyedJob:
    return windows("w", RIDES, {"n_rides": count(), "value": aggregate}, key="user", length="1h")


def of_length(length: Calendar) -> KeyedJob:
    return windows("w", RIDES, {"n_rides": count()}, key="user", length=length)


def of_lateness(lateness: Lateness) -> KeyedJob:
    return windows("w", RIDES, {"n_rides": count()}, key="user", length="1h", lateness=lateness)


def of_top(top: Top) -> KeyedJob:
    return windows("t", RIDES, {"pieces": sum("n"), "rides": count()}, length="1h", by="kind", top=top)


def of_rows(keep: First | Last | Highest) -> KeyedJob:
    return rows("t", RIDES, keep=keep, key="user")


def of_running(aggregate: Any) -> KeyedJob:
    return running("r", RIDES, {"n_rides": count(), "value": aggregate}, key="user")


def of_until(until: Until) -> KeyedJob:
    return sessions("s", RIDES, {"since": first("at"), "n_rides": count()}, until=until, key="user", gap="30m")


def of_while(while_: While) -> KeyedJob:
    return sessions("s", RIDES, {"since": first("at"), "n_rides": count()}, while_=while_, key="user", gap="30m")


def of_two_events(aggregate: Any) -> KeyedJob:
    of = {"since": first("at"), "n_rides": count(), "value": aggregate}
    return sessions("s", RIDES, of, while_=While(KM > 3, pause="5m"), key="user", gap="30m")


def of_parts(part: PartOf) -> KeyedJob:
    return windows("w", RIDES.derive(part=part), {"n_rides": count()}, key="part", length="1h")


def of_pattern(declared: Any) -> KeyedJob:
    return pattern("p", RIDES, {"found": declared}, key="user")


def of_step(declared: Any) -> KeyedJob:
    return of_pattern(Pattern({"one": KIND == "a", "two": declared}, "1h"))


def of_condition(condition: Any) -> KeyedJob:
    return alert("a", RIDES, {"FAR": condition}, key="user")


def of_timeout(timeout: Timeout) -> KeyedJob:
    return last_n("l", RIDES, {"longest": max("km")}, n=3, key="user", gap=timeout)


class Sized(JobParameters):
    """Parameters of a job."""

    length: Window = parameter("1h", change="refresh")
    colour: str = parameter("red", change="free")


def built(kind: type[JobParameters]) -> Callable[..., KeyedJob]:
    """Make jobs of parameters."""

    def build(parameters: Any) -> KeyedJob:
        """A job of parameters."""
        return job_of(
            parameters=parameters,
            inputs=Input(RIDES.where(pl.lit(getattr(parameters, "colour", "")) != KIND), final_at="at"),
        )

    build.__annotations__["parameters"] = kind
    return lambda **given: build_job(with_parameters(build), given)


def aggregates_of(call: Callable[..., Any], **more: Changed) -> Declared:
    return Declared(call, {"value": "km"}, {"value": Changed("n"), **more}, of_aggregate)


_INPUT = {"source": RIDES, "final_at": "at"}
_LOOKUP = {"path": "p.csv", "columns": {"user": pl.String, "age": pl.Int64}, "key": "user"}

PARTS = [
    Declared(
        Input,
        _INPUT,
        {
            "source": Changed(OTHERS, kind="move"),
            "at": Changed("sent", {"at": "at"}),
            "delay": Changed("9m", kind="move"),
            "final_at": Changed(STEP_DECIDES),
            "columns": Changed(("user", "at")),
            "idle_timeout": Changed("3h", kind="free"),
            "conserved": Changed(False),
            "combine": Changed(by_user_and_kind, {"combine": by_user}, kind="judge"),
            "events": Changed(pl.col("n").sum()),
            "time_from": Changed("sent"),
            "computed": Changed({"more": KM * 2}, {"computed": {"more": KM}, "columns": EVENT}),
        },
        of_input,
    ),
    Declared(Refinable.where, {"self": RIDES, "condition": KM > 1}, {"self": Changed(OTHERS), "condition": Changed(KM > 2)}, of_refined),
    Declared(
        lambda self, **columns: self.derive(**columns),
        {"self": RIDES, "more": KM * 2},
        {"self": Changed(OTHERS), "more": Changed(KM * 3), "columns": Changed(None, kind="not of a job")},
        of_refined,
        Refinable.derive,
    ),
    Declared(
        Refinable.explode,
        {"self": RIDES, "column": "user", "values": pl.col("tags"), "otherwise": "none"},
        {
            "self": Changed(OTHERS),
            "column": Changed("tag", {"values": pl.col("tags")}),
            "values": Changed(pl.col("tags").list.head(1)),
            "otherwise": Changed("nobody"),
        },
        lambda refined: windows("w", refined, {"n": count()}, key=refined.exploded.column, length="1h"),
    ),
    Declared(
        Stream,
        {"name": "rides", "schema": EVENT, "event_time": "at"},
        {
            "name": Changed("trips", kind="move"),
            "schema": Changed(EVENT.append(pa.field("more", pa.string())), kind="move"),
            "event_time": Changed("sent"),
            "missing_time": Changed("arrival"),
            "description": Changed("Rides", kind="not of a job"),
            "sources": Changed({"km": Source(("kilometres",))}, kind="not of a job"),
            "ignored": Changed(("x",), kind="not of a job"),
            "missing": Changed(("NA",), kind="not of a job"),
            "format": Changed(FileFormat(zone="Europe/Berlin"), kind="not of a job"),
            "event_id": Changed(("user", "at"), kind="not of a job"),
            "rules": Changed((Rule("far", KM > 9),), kind="not of a job"),
            "duplicate_window": Changed("8d", kind="not of a job"),
            "future_bound": Changed("2d", kind="not of a job"),
            "max_age": Changed("2d", kind="not of a job"),
            "done_marker": Changed(True, kind="not of a job"),
            "private": Changed(("user",), kind="not of a job"),
            "max_line_bytes": Changed(1 << 20, kind="not of a job"),
            "max_file_bytes": Changed(1 << 30, kind="not of a job"),
        },
        of_stream,
    ),
    Declared(
        KeyedJob,
        {"name": "jobs", "inputs": Input(RIDES, final_at="at"), "key": "user", "state": TOTAL, "step": counting, "tables": Append(TOTAL)},
        {
            "name": Changed("other", kind="move"),
            "inputs": Changed({"rides": Input(RIDES, final_at="at"), "more": Input(OTHERS, columns=("user", "at"), final_at="at")}),
            "key": Changed(("user", "kind"), {"state": {"n": pl.Int64}}),
            "state": Changed({"user": pl.String, "m": pl.Int64}),
            "step": Changed(summing, kind="judge"),
            "tables": Changed([Append(TOTAL), Append(TOTAL, name="more")], kind="move"),
            "parameters": Changed({"gap": 4}, {"parameters": {"gap": 3}}),
            "key_groups": Changed(8, kind="move"),
            "contents": Changed({"file": "b"}, {"contents": {"file": "a"}}),
            "description": Changed("Rides", kind="not of a job"),
            "row_times": Changed(RowTimes("at"), {"tables": Append([*TOTAL, ("at", pl.Datetime("us", "UTC"))])}, kind="not of a job"),
            "lookups": Changed({"people": Lookup(**_LOOKUP)}),
            # How a job is built and by what: what it declares then is what counts.
            "model": Changed(Sized, kind="not of a job"),
            "build": Changed(lambda parameters: job_of(), kind="not of a job"),
            "operator": Changed(None, kind="not of a job"),
        },
    ),
    Declared(per_key, {"handler": one_key}, {"handler": Changed(another_key, kind="judge")}, lambda step: job_of(step=step)),
    Declared(
        State,
        {"columns": TOTAL},
        {
            "columns": Changed(TOTAL.append(pa.field("more", pa.string())), kind="move"),
            "version": Changed(2),
            "migrations": Changed({1: by_user}, kind="not of a job"),
            "events": Changed(pl.col("n").sum()),
            "one_per_key": Changed(pl.col("n") > 1, kind="free"),
            # Of an operator, whose argument they are.
            "aggregates": Changed(StoredAggregates({}), kind="not of a job"),
        },
        lambda state: job_of(state=state),
    ),
    Declared(
        Append,
        {"columns": TOTAL},
        {
            "columns": Changed(TOTAL.append(pa.field("more", pa.string())), kind="move"),
            "name": Changed("more", {"name": "further"}, kind="move"),
            "events": Changed(pl.col("n").sum()),
            "description": Changed("Totals", kind="not of a job"),
        },
        lambda table: job_of(tables=[Append(TOTAL), table] if table.name else table),
    ),
    Declared(
        Upsert,
        {"columns": [*TOTAL, required("kind", pa.string(), "Kind")], "key": "user"},
        {
            "columns": Changed([*TOTAL, required("kind", pa.string(), "Kind"), ("more", pa.string())], kind="move"),
            "key": Changed(("user", "kind")),
            "name": Changed("more", {"name": "further"}, kind="move"),
            "events": Changed(pl.col("n").sum()),
            "description": Changed("Totals", kind="not of a job"),
            "changes": Changed(True),
        },
        lambda table: job_of(tables=[Append(TOTAL), table] if table.name else table),
    ),
    Declared(
        Lookup,
        _LOOKUP,
        {
            # What is in it applies from the next run on.
            "path": Changed("q.csv", kind="not of a job"),
            "columns": Changed({"user": pl.String, "age": pl.Float64}),
            "key": Changed(("user", "kind"), along={"columns": {"user": pl.String, "kind": pl.String, "age": pl.Int64}}),
            "private": Changed("age", kind="not of a job"),
        },
        of_lookup,
    ),
    Declared(count, {}, {"where": Changed(N > 2, {"where": N > 1})}, of_aggregate),
    aggregates_of(sum, value=Changed("n", {"value": N * 2})),
    aggregates_of(min),
    aggregates_of(max),
    aggregates_of(mean),
    aggregates_of(first),
    aggregates_of(last),
    aggregates_of(count_distinct, at_most=Changed(7)),
    aggregates_of(quantile, q=Changed(0.25, {"q": 0.5}), at_most=Changed(7, {"q": 0.5}), value=Changed("n", {"q": 0.5})),
    aggregates_of(collect, at_most=Changed(7)),
    Declared(distinct, {"value": "tags"}, {"value": Changed(pl.col("tags").list.head(1)), "ignored": Changed(("a",))}, of_running),
    Declared(over_pairs, {"value": N - N.shift()}, {"value": Changed(N + N.shift())}, of_two_events),
    Declared(sum_of_decreases, {"value": "n"}, {"value": Changed(N * 2)}, of_two_events),
    Declared(divided, {"value": N, "by": 2}, {"value": Changed(N * 2), "by": Changed(3)}, lambda value: of_aggregate(max(value))),
    Declared(Calendar, {"period": "day"}, {"period": Changed("week"), "zone": Changed("Europe/Berlin")}, of_length),
    Declared(Lateness, {"allowed": "1h"}, {
        "allowed": Changed("2h"), "while_open": Changed(True), "changes": Changed(True),
    }, of_lateness),
    Declared(Top, {"n": 3, "highest": "pieces"}, {
        "n": Changed(4),
        "highest": Changed("rides"),
        "whole": Changed(Append({"window_end": pl.Datetime("us", "UTC"), "rides": pl.Int64}, name="all_w", events=pl.col("rides").sum())),
        "latest": Changed(Upsert([required("window_start", pa.timestamp("us", "UTC"), "W"), required("rank", pa.int64(), "R"), ("kind", pa.string())], ("window_start", "rank"), name="now", events=pl.lit(0))),
    }, of_top),
    Declared(First, {"expires": "1d"}, {"expires": Changed("2d")}, of_rows),
    Declared(Last, {"expires": "1d"}, {"expires": Changed("2d")}, of_rows),
    Declared(Highest, {"column": "km", "n": 3}, {"column": Changed("n"), "n": Changed(4), "ties": Changed("kind")}, of_rows),
    Declared(PartOf, {"columns": ("user",), "parts": 4}, {"columns": Changed(("kind",)), "parts": Changed(5)}, of_parts),
    Declared(Until, {"condition": KM > 3, "closed_for": "1h"}, {
        "condition": Changed(KM > 4), "closed_for": Changed("2h"), "at_once": Changed(True),
    }, of_until),
    Declared(While, {"condition": KM > 3, "pause": "5m"}, {
        "condition": Changed(KM > 4), "pause": Changed("6m"),
        "between": Changed(Append({"user": pl.String, "n_rides": pl.Int64}, name="stops", events=pl.col("n_rides").sum())),
    }, of_while),
    Declared(Held, {"begins": KM > 9, "ends": KM < 3}, {
        "begins": Changed(KM > 8), "ends": Changed(KM < 2), "held_for": Changed("5m"), "cool_down": Changed("5m"),
    }, of_condition),
    Declared(Listed, {"find": is_near}, {"find": Changed(is_far, kind="judge")}, of_condition),
    Declared(Pattern, {"steps": {"one": KIND == "a", "two": KIND == "b"}, "within": "1h"}, {
        "steps": Changed({"two": KIND == "b", "one": KIND == "a"}), "within": Changed("2h"),
    }, of_pattern),
    *(
        Declared(step, {"condition": KIND == "b"}, {"condition": Changed(KIND == "c"), "where": Changed(pl.col("one_km") < KM, {"where": pl.col("one_km") > KM})}, of_step)
        for step in (Then, Next, Without)
    ),
    Declared(Timeout, {"after": timedelta(hours=1)}, {"after": Changed(timedelta(hours=2)), "in_": Changed("processing_time")}, of_timeout),
    Declared(built(Sized), {}, {
        "time": Changed("arrival"), "key_groups": Changed(8, kind="move"), "length": Changed("2h"), "colour": Changed("blue", kind="free"),
    }, of=Sized),
    Declared(built(EventTimeParameters), {}, {
        "time": Changed("arrival"), "key_groups": Changed(8, kind="move"), "delay": Changed("9m", kind="move"), "idle_timeout": Changed("9m", kind="move"),
    }, of=EventTimeParameters),
]  # fmt: skip
