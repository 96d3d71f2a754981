"""Compare anomaly predictions of a million readings with plain Polars: `python -m benchmarks.jobs.anomaly_predictions`.

Both score the same readings of many keys, in order of time, with the model `ewma`. The job reads them in micro-batches, keeps
its models, and emits changed predictions. Polars' `ewm_mean` needs the whole table, in order, once, and returns only the
scores.
"""

import argparse
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from polars.testing import assert_frame_equal

from benchmarks.jobs.measure import compare
from keyfold import TestHarness, build_job
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.jobs.anomaly_predictions.models import MODELS
from spark_jobs.jobs.anomaly_predictions.models.ewma import Ewma
from spark_jobs.jobs.anomaly_predictions.models.scoring import HALF_AT

START = datetime(2024, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
MIN_EVENTS = 30


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs.anomaly_predictions", description=__doc__)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--minutes", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=1, help="micro-batches that the job takes the readings in")
    parser.add_argument("--model", choices=list(MODELS), default="ewma", help="another has no plain counterpart")
    arguments = parser.parse_args()
    readings = simulate(arguments.keys, arguments.minutes)

    def play(**parameters: str) -> TestHarness:
        job = build_job(ANOMALY_PREDICTIONS, {"min_events": MIN_EVENTS, "model": arguments.model, **parameters})
        harness = TestHarness(job)
        rows = -(-readings.height // arguments.batches)
        for start in range(0, readings.height, rows):
            harness.batch(readings.slice(start, rows))
        harness.batch(advance_to=START + MINUTE * arguments.minutes)
        return harness

    if arguments.model == "ewma":  # the race is about one answer
        ours = play(emit="all").written["anomaly_predictions"].select("key", "event_time", "score")
        assert_frame_equal(ours, score(readings), check_row_order=False, abs_tol=1e-9)
    name = f"anomaly_predictions, {arguments.model}, {arguments.keys} keys, {arguments.batches} micro-batches"
    compare(name, readings.height, play, lambda: score(readings))


def simulate(keys: int, minutes: int) -> pl.DataFrame:
    """A reading per minute of many keys, in order of time; one in a thousand is far off."""
    chance = np.random.default_rng(7)
    rows = keys * minutes
    far_off = 40 * (chance.random(rows) < 0.001)
    return pl.DataFrame(
        {
            "key": pl.Series(np.tile(np.arange(keys), minutes)).cast(pl.String).str.zfill(6),
            "timestamp": pl.Series(np.repeat(np.arange(minutes), keys) * 60_000_000).cast(pl.Duration("us")) + START,
            "value": np.tile(np.arange(keys), minutes) + chance.normal(0, 1, rows) + far_off,
        }
    )


def score(readings: pl.DataFrame) -> pl.DataFrame:
    """The scores of readings that are sorted by time, without late ones or silences."""
    model = Ewma()
    before = pl.col("value").ewm_mean(alpha=model.level_share).shift(1).over("key")
    expected = readings.with_columns(expected=before, rank=pl.int_range(pl.len()).over("key"))
    error = pl.col("value") - pl.col("expected")
    variance = (error * error).ewm_mean(alpha=model.spread_share, ignore_nulls=True).shift(1).over("key")
    inverse = HALF_AT * variance.sqrt() / error.abs()
    known = pl.col("rank") >= MIN_EVENTS
    return expected.select(
        "key", event_time="timestamp", score=pl.when(known).then(1 / (1 + inverse**4)).otherwise(0.0)
    )


if __name__ == "__main__":
    main()
