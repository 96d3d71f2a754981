"""`python -m benchmarks.planted_fraud`: how much simulated fraud `card_in_two_cities` finds, and how many findings are false.

Ten simulations write files of payments with common faults: out of order, late, duplicated, malformed. They are read twice: all
files in one run, and each file in its own run, as an hourly job would. In the latter, payments that arrive after
`watermark_delay` are late and are not matched.
"""

import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from keyfold import TestHarness, build_job
from keyfold.ingestion.parsing import UnreadableFileError, parse_file
from spark_jobs.jobs.card_in_two_cities import CARD_IN_TWO_CITIES
from spark_jobs.simulation import simulate
from spark_jobs.simulation.fraud_score import FraudScore, score_fraud
from spark_jobs.streams import PAYMENTS

SEEDS = range(10)
START = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    for how, runs in (("all files in one run", in_one_run), ("each file in a run of its own", one_by_one)):
        scores, payments, late = [], 0, 0
        for seed in SEEDS:
            with tempfile.TemporaryDirectory(prefix="keyfold-fraud-") as folder:
                made = simulate(PAYMENTS.name, Path(folder), seed=seed, start=START)
                score, missed = find(runs(files_of(Path(folder), made.end)), {one.payment_id for one in made.planted})
            scores.append(score)
            payments, late = payments + made.events, late + missed
        total = FraudScore(*(sum(getattr(one, name) for one in scores) for name in FraudScore.__dataclass_fields__))
        print(
            f"{how}: {payments:,} payments, {late:,} late; {total.found:,} of {total.planted:,} planted frauds found; "
            f"{total.false:,} of {total.matches:,} matches false, {total.false / payments:.2%} of payments"
        )


def find(runs: Iterable[pl.DataFrame], planted: set[str]) -> tuple[FraudScore, int]:
    """The job's score over all runs, and the number of late payments."""
    job = build_job(CARD_IN_TWO_CITIES)
    harness = TestHarness(job)
    for run in runs:
        harness.batch(run.select(job.events.names))
    harness.batch(advance_to=harness.watermark + timedelta(days=1))
    return score_fraud(harness.written[job.name], planted), harness.written[job.late_table].height


def files_of(folder: Path, arrived: datetime) -> Iterator[pl.DataFrame]:
    """The accepted payments of each file, in the order of arrival, without duplicates over all files."""
    known: set[str] = set()
    for file in sorted(folder.iterdir()):
        try:
            parts = [rows.accepted for rows in parse_file(PAYMENTS, file, arrived, folder)]
        except UnreadableFileError:
            continue
        payments = pl.concat(parts).unique("payment_id", maintain_order=True)
        yield payments.filter(~pl.col("payment_id").is_in(list(known)))
        known |= set(payments["payment_id"])


def in_one_run(files: Iterator[pl.DataFrame]) -> list[pl.DataFrame]:
    return [pl.concat(list(files))]


def one_by_one(files: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    return files


if __name__ == "__main__":
    main()
