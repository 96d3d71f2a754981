"""What jobs of one stream give for any history, in plain Python: what `test_any_history.py` holds them to."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from tests.spark_jobs.jobs import ride_oracle, sales_oracle, warning_oracle
from tests.spark_jobs.jobs.anomaly_predictions import anomaly_oracle
from tests.spark_jobs.jobs.fences import FENCES
from tests.spark_jobs.jobs.fleet_days_oracle import days_of
from tests.spark_jobs.jobs.in_order_oracle import NEVER, Averages, Event, InOrder, Lives, Rows, Run, told
from tests.spark_jobs.jobs.payments_oracle import by_two_loops
from tests.spark_jobs.jobs.sales_oracle import starts_of
from tests.spark_jobs.jobs.trip_oracle import Vehicle

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass(frozen=True)
class Answer:
    """What a job is to give: rows of tables, in some of their columns; and the events that are late."""

    tables: dict[str, Rows]
    late: list[Event]


def on_time(runs: list[Run], time: str) -> tuple[list[Event], list[Event]]:
    """The events ahead of the watermark before their run, and the others."""
    both: tuple[list[Event], list[Event]] = ([], [])
    for run in runs:
        for event in run.events:
            both[event[time] <= run.before].append(event)
    return both


def in_order(runs: list[Run], machine: Callable[..., Any], silence: tuple[str, timedelta], **more: Any) -> InOrder:
    """Feed all runs to machines, which know of a silence of event time alone."""
    kind, after = silence
    by_event = kind == "event_time"
    fed = InOrder(lambda: machine(after if by_event else NEVER), silence=None if by_event else after, **more)
    for run in runs:
        fed.run(run)
    return fed


def averages(runs: list[Run], *, n_readings: int, min_readings: int, timeout: timedelta, timeout_in: str) -> Answer:
    rows, sessions = [], []
    fed = in_order(
        runs,
        lambda after: Averages(rows, sessions, n_readings, min_readings, after),
        (timeout_in, timeout),
        key="station_id",
        time="time",
        order=lambda one: told(one, "pressure", "temp"),
    )
    latest = {row["station_id"]: row for row in rows}.values()
    return Answer(
        {"moving_averages": rows, "latest_moving_averages": list(latest), "station_sessions": sessions}, fed.late
    )


def trips(runs: list[Run], *, stop_after: timedelta, silence: timedelta, timeout_in: str) -> Answer:
    rows, stops = [], []
    fed = in_order(
        runs,
        lambda after: Vehicle(rows, stops, 3.0, stop_after, after),
        (timeout_in, silence),
        key="vehicle_id",
        time="time",
        order=lambda one: told(
            one, "latitude", "longitude", "speed", "fuel_level", "acceleration", "engine_temperature"
        ),
    )
    return Answer({"vehicle_trips": rows, "vehicle_stops": stops}, fed.late)


def rides(runs: list[Run], *, close: str, timeout_in: str, closed_for: timedelta) -> Answer:
    timeout = 30 * MINUTE
    if timeout_in == "processing_time":
        oracle = ride_oracle.InProcessingTime(timeout, closed_for, is_fast=close == "fast")
        for run in runs:
            oracle.run(run.now, run.events, run.before, run.after)
        answer, late = oracle.answer, []
    elif close == "fast":
        oracle = ride_oracle.Fast(timeout, closed_for, runs[0].delay)
        for run in runs:
            oracle.batch(run.events, run.before, run.after)
        answer, late = oracle.answer, []
    else:
        events, late = on_time(runs, "timestamp")
        answer = ride_oracle.complete(events, runs[-1].after, timeout, closed_for)
    rows = list(answer.summaries.values())
    long_rides = [row for row in rows if row["ride_duration_in_secs"] > 3600]
    return Answer({"ride_summaries": rows, "long_rides": long_rides}, [*late, *[{}] * answer.late_points])


def purchases(runs: list[Run], *, order: str, expire_after: timedelta | None, timeout_in: str) -> Answer:
    told_of: list[tuple[list[Event], int, Event]] = []
    latest: dict[str, tuple[int, list[str]]] = {}
    after, by_event = expire_after or NEVER, timeout_in == "event_time"
    fed = InOrder(
        lambda: Lives(told_of, after if by_event else NEVER),
        "item",
        "time",
        lambda one: sales_oracle.purchase_order(one)[1:],
        silence=None if by_event else after,
        at_once=order == "arrival",
        refuses=False,
    )
    for run in runs:
        fed.run(run)
        for item in {one["item"] for one in run.events}:
            # A total has what lies ahead of the watermark too; of an item that has expired already it is its last life's.
            life = fed.coming(item).life or next(life for life, _, one in reversed(told_of) if one["item"] == item)
            latest[item] = total_of(life)
    rows = []
    for life, place, one in told_of:
        quantity, models = total_of(life[: place + 1])
        rows.append(
            {"item": one["item"], "delta_quantity": one["quantity"], "cumulative_quantity": quantity, "models": models}
            | {"event_time": one["time"]}
        )
    last = [{"item": item, "quantity": quantity, "models": models} for item, (quantity, models) in latest.items()]
    return Answer({"purchase_totals": rows, "latest_purchase_totals": last}, [])


def total_of(purchases: list[Event]) -> tuple[int, list[str]]:
    seen = sorted({model for one in purchases for model in one["models"] or [] if model})
    return sum(one["quantity"] for one in purchases), seen


def index_order(one: Event) -> tuple:
    return one["quantity"], one["models"] is not None, one["models"] or [], *told(one, "price")


def indexes(runs: list[Run], *, expire_after: timedelta, timeout_in: str, **_: str) -> Answer:
    told_of: list[tuple[list[Event], int, Event]] = []
    in_order(
        runs,
        lambda after: Lives(told_of, after),
        (timeout_in, expire_after),
        key="item",
        time="time",
        order=index_order,
        refuses=False,
    )
    return Answer({"event_index": [{**one, "event_index": place} for _, place, one in told_of]}, [])


def windowed_indexes(runs: list[Run], *, window: str, **_: str) -> Answer:
    """Windows, their counters and what is late, one sale at a time."""
    length, every = (int(part.rstrip("m")) * MINUTE for part in window.split(" every "))
    rows, late, waiting, counters = [], [], [], defaultdict(int)
    for run in runs:
        for one in run.events:
            for start in starts_of(one["time"], length, every):
                (late if start + length <= run.before else waiting).append({**one, "window_start": start})
        waiting.sort(key=lambda one: (one["time"], *index_order(one)))
        for one in [one for one in waiting if one["time"] <= run.after]:
            place = one["item"], one["window_start"]
            rows.append({**one, "event_index": counters[place]})
            counters[place] += 1
        waiting = [one for one in waiting if one["time"] > run.after]
    return Answer({"event_index": rows}, late)


def top(runs: list[Run], *, window: timedelta, k: int) -> Answer:
    oracle = sales_oracle.Windows(window, k)
    for run in runs:
        oracle.batch(run.events, run.after)
    names = ("window_start", "window_end", "rank", "product", "quantity", "revenue")
    closed: Rows = [dict(zip(names, row, strict=True)) for row in oracle.top(oracle.closed)]
    every: Rows = [dict(zip(names, row, strict=True)) for row in oracle.top({**oracle.closed, **oracle.open})]
    latest: Rows = [{**row, "is_open": row["window_start"] in oracle.open} for row in every]
    # Of a window without a limit to its ranks, all products.
    oracle.k = 1000
    of_windows = defaultdict(list)
    for row in oracle.top(oracle.closed):
        of_windows[row[:2]].append(row)
    sums: Rows = [
        {"window_start": start, "window_end": end, "n_sales": len(oracle.closed[start]), "n_products": len(of)}
        | {"quantity": sum(row[4] for row in of)}
        for (start, end), of in of_windows.items()
    ]
    tables = {"top_products": closed, "latest_top_products": latest, "sales_windows": sums}
    return Answer(tables, [{}] * oracle.n_late)


def models(runs: list[Run]) -> Answer:
    found: dict[str, list[Event]] = defaultdict(list)
    for one in (one for run in runs for one in run.events):
        for model in {model for model in one["models"] or [] if model} or {""}:
            found[model].append(one)
    rows = [
        {"model": model, "quantity": sum(one["quantity"] for one in of), "purchases": len(of)}
        | {"latest": max(one["time"] for one in of)}
        for model, of in found.items()
    ]
    return Answer({"model_totals": rows}, [])


def days(runs: list[Run], *, timezone: str) -> Answer:
    late, kept = [], []
    for run in runs:
        for one in run.events:
            ((_, day),) = days_of([one], timezone)
            (late if day_ends(day, timezone) <= run.before else kept).append(one)
    rows = [
        {"vehicle_id": vehicle, "day": day, **row, "is_open": day_ends(day, timezone) > runs[-1].after}
        for (vehicle, day), row in days_of(kept, timezone).items()
    ]
    return Answer({"fleet_days": rows}, late)


def day_ends(day: date, timezone: str) -> datetime:
    after = day + timedelta(days=1)
    return datetime(after.year, after.month, after.day, tzinfo=ZoneInfo(timezone)).astimezone(UTC)


def warnings(runs: list[Run], *, geofence_margin: int, geofences: str) -> Answer:
    events, late = on_time(runs, "time")
    rows = warning_oracle.watch(events, runs[-1].after, FENCES, geofence_margin)
    return Answer({"fleet_warnings": rows}, late)


def predictions(runs: list[Run], *, interval: timedelta, **given: Any) -> Answer:
    events, late = on_time(runs, "timestamp")
    chosen = {name: value for name, value in given.items() if name not in ("model", "window")}
    answer = anomaly_oracle.answer(events, runs[-1].after, anomaly_oracle.Settings(period=interval, **chosen))
    names = ("key", "events_learned", "last_event_time", "retired_at")
    retired = [dict(zip(names, row, strict=True)) for row in answer.retired]
    tables = {"latest_predictions": list(answer.latest.values()), "retired_models": retired}
    return Answer({"anomaly_predictions": answer.output, **tables}, late)


def pairs(runs: list[Run]) -> Answer:
    events, late = on_time(runs, "time")
    found = by_two_loops([one for one in events if one["time"] <= runs[-1].after])
    rows = [{"first_payment_id": first, "last_payment_id": last} for first, last in found]
    return Answer({"card_in_two_cities": rows}, late)
