"""`python -m benchmarks.jobs_on_spark [JOB …]`: compare jobs, with either runner, with a Spark SQL query for the same result.

All read the same event table; Spark writes Parquet, in turn, in one warm session. The slope between two sizes counts, since a
run's fixed costs (starting a stream, planning) are in both times and cancel out.
"""

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
from pyspark.sql import DataFrame

from benchmarks.runs import START, by_turns, ride_points, runners_and_folder
from keyfold import Lakehouse, build_job
from keyfold.keyed.job_run import run_job
from keyfold.runners import Runners
from keyfold.times import micros
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import RIDE_POINTS, SALES

SMALL, LARGE, REPEAT = 2_000_000, 8_000_000, 2
_STORES = "org.apache.spark.sql.execution.streaming.state"

NATIVE = {
    # Without the distance, and without what ends a ride.
    "ride_summaries": """
        SELECT ride_id, min(timestamp) AS start_time, max(timestamp) AS end_time, count(*) AS n_points,
            max(meter_reading) AS fare, min_by(ride_status, timestamp) AS start_status,
            max_by(ride_status, timestamp) AS end_status FROM events GROUP BY ride_id""",
    "purchase_totals": """
        SELECT item, quantity AS delta_quantity, time AS event_time,
            sum(quantity) OVER w AS cumulative_quantity, sort_array(collect_set(model) OVER w) AS models
            FROM (SELECT *, models[0] AS model FROM events)
            WINDOW w AS (PARTITION BY item ORDER BY time ROWS UNBOUNDED PRECEDING)""",
    "model_totals": """
        SELECT coalesce(model, '') AS model, sum(quantity) AS quantity, count(*) AS purchases, max(time) AS latest
            FROM (SELECT quantity, time, explode_outer(array_distinct(models)) AS model FROM events) GROUP BY 1""",
    "event_index": """
        SELECT *, row_number() OVER (PARTITION BY ride_id ORDER BY timestamp, point_idx) - 1 AS event_index FROM events""",
}


def sales(rows: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    item = rng.zipf(1.3, rows) % 3_000
    seconds = np.sort(rng.integers(0, 60 * 86_400, rows))
    price = np.round(rng.uniform(1, 50, 3_000), 2)
    times = pl.Series(seconds * 1_000_000 + micros(START)).cast(pl.Datetime("us", "UTC"))
    models = pl.Series([[f"model {number}"] for number in range(4)])
    return pl.DataFrame(
        {
            "item": pl.Series([f"item-{number:04}" for number in range(3_000)]).gather(item),
            "quantity": rng.integers(-1, 12, rows),
            "models": models.gather(item % 4),
            "time": times,
            "price": price[item],
        }
    ).with_columns(pl.lit(None, pl.String).alias(name) for name in ("invoice", "customer", "country"))


MADE: dict[str, Callable[[int], pl.DataFrame]] = {SALES.name: sales, RIDE_POINTS.name: ride_points}


def main() -> None:
    wanted = sys.argv[1:] or list(NATIVE)
    if unknown := set(wanted) - set(NATIVE):
        sys.exit(f"no benchmark of {', '.join(sorted(unknown))}; there are: {', '.join(NATIVE)}")
    with runners_and_folder() as (spark, folder):
        for name in wanted:
            race(spark, folder, name)


def race(spark: Runners, folder: Path, name: str) -> None:
    """Print the seconds of a job with each runner and of the query, at both sizes and by the slope between them."""
    small, large = (measure(spark, folder, name, rows) for rows in (SMALL, LARGE))
    others = [name for name in small if name not in ("spark", "local")]
    for runner, other in itertools.product(("spark", "local"), others):
        ratios = [size[other] / size[runner] for size in (small, large)]
        slopes = [large[name] - small[name] for name in (other, runner)]
        print(
            f"{name}, {runner} runner: {SMALL:,} events {small[runner]:.2f} s, {LARGE:,} events {large[runner]:.2f} s; {other} "
            f"{small[other]:.2f} and {large[other]:.2f} s; faster by {ratios[0]:.2f} and {ratios[1]:.2f}, by the slope "
            f"{slopes[0] / slopes[1]:.2f} (best of {REPEAT}, by turns)",
            flush=True,
        )


def measure(spark: Runners, folder: Path, name: str, rows: int) -> dict[str, float]:
    """Seconds of the job with each runner and of the query for a number of events: the best of several runs in turn."""
    job = build_job(JOBS[name])
    table = Lakehouse(folder / f"{name}-{rows}").events(job.only_input.stream.name)
    table.parent.mkdir(parents=True)
    MADE[job.only_input.stream.name](rows).write_delta(str(table))
    spark.session.read.parquet(str(table)).createOrReplaceTempView("events")

    def with_runner(runners: Runners) -> Callable[[Path], object]:
        def run(home: Path) -> None:
            (home / "events").symlink_to(str(table.parent))
            run_job(Lakehouse(home), job, runners=runners)

        return run

    def native(home: Path) -> None:
        spark.session.sql(NATIVE[name]).write.format("parquet").save(f"{home}/native")

    def streaming(home: Path) -> None:
        session = spark.session.newSession()
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.streaming.stateStore.providerClass", f"{_STORES}.RocksDBStateStoreProvider")
        stream = session.readStream.schema(session.read.parquet(str(table)).schema).parquet(str(table))
        stream.withWatermark("timestamp", "10 minutes").createOrReplaceTempView("events")

        def write(changes: DataFrame, _: int) -> None:
            changes.write.mode("append").parquet(f"{home}/streaming")

        writer = session.sql(NATIVE[name]).writeStream.outputMode("update").trigger(availableNow=True)
        writer.option("checkpointLocation", f"{home}/checkpoint").foreachBatch(write).start().awaitTermination()

    contestants = {"spark": with_runner(spark), "local": with_runner(Runners("local")), "Spark SQL": native}
    if name == "ride_summaries":
        contestants["Spark's streaming aggregation"] = streaming
    return {contestant: figures.best for contestant, figures in by_turns(contestants, folder, REPEAT).items()}


if __name__ == "__main__":
    main()
