"""Score models on the Numenta Anomaly Benchmark: `python -m benchmarks.nab [--data DIR] [--model NAME|all]`.

Each series is a metric of the job `anomaly_predictions`, whose own step scores its rows. Each row is scored by a model that has
learned only the rows before it. For each model and profile are printed:

- `best`: the score at the best threshold for these series, as in the benchmark's own table of results;
- `category left out`: the score if each category is scored at the best threshold of the others, as an estimate for other kinds
  of metrics;
- `as shipped`: the score at the model's own threshold;
- `µs an event`: the model's processor time if one call has all series as a whole, the best of three.

For the default model, the scores are also printed by category, and by the requested number of alarms per week.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.nab_corpus import LabelledSeries, read_corpus
from benchmarks.nab_scoring import PROFILES, STANDARD, Profile, Result, ScoredSeries, best_result, normalise, result_at
from keyfold import KeyfoldError, TestHarness, build_job
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.jobs.anomaly_predictions.models import MODELS

DATA = Path(__file__).parents[1] / "tests" / "data" / "nab"
DEFAULT_MODEL = "rarity"
RATES = (3.0, 2.0, 1.5, 1.0, 0.75, 0.5, 0.25)
"""The numbers of alarms per week to show the score for."""
END_OF_TIME = datetime(9000, 1, 1, tzinfo=UTC)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nab", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of category/series.csv[.gz] and windows.json")
    parser.add_argument("--model", choices=[*MODELS, "all"], default=DEFAULT_MODEL)
    arguments = parser.parse_args()
    try:
        corpus = read_corpus(arguments.data)
    except KeyfoldError as error:
        sys.exit(f"python -m benchmarks.nab: {error}")
    console = Console(width=110)
    console.print(f"{len(corpus)} series, {sum(one.readings.height for one in corpus)} rows")
    table = Table("model", "profile", "best", "at threshold", "category left out", "as shipped", "µs an event")
    details = []
    for name in MODELS if arguments.model == "all" else [arguments.model]:
        scored, cost = score_corpus(name, corpus), bulk_cost(name, corpus)
        for profile in PROFILES:
            best = best_result(scored, profile)
            shipped = as_shipped(name, scored, profile)
            left_out = category_left_out(corpus, scored, profile)
            figures = (best.normalised, best.threshold, left_out, shipped.normalised)
            table.add_row(name, profile.name, *(f"{figure:.4g}" for figure in figures), f"{cost:.1f}")
        if name == DEFAULT_MODEL:
            details += [_by_category(corpus, scored), _by_rate(scored)]
    for part in (table, *details):
        console.print(part)


def score_corpus(model: str, corpus: Sequence[LabelledSeries]) -> list[ScoredSeries]:
    """Score all rows of all series by the job's step. Each series is a key."""
    return [ScoredSeries(_score(model, one), one.windows) for one in corpus]


def bulk_cost(name: str, corpus: Sequence[LabelledSeries]) -> float:
    """Processor time of predicting and learning all series in one call, in microseconds per event."""
    rows = pl.concat([one.readings for one in corpus]).rename({"timestamp": "event_time"})
    events, model = rows.sort("key", "event_time", "value"), MODELS[name]
    models, spent = model.initial(events["key"].unique().sort()), []
    for _ in range(3):
        began = time.process_time()
        model.predict_then_learn(models, events)
        spent.append(time.process_time() - began)
    return 1e6 * min(spent) / events.height


def as_shipped(model: str, scored: Sequence[ScoredSeries], profile: Profile) -> Result:
    """The result at the model's own threshold, above which the job calls a value anomalous."""
    return result_at(float(np.nextafter(MODELS[model].threshold, 1.0)), scored, profile)


def category_left_out(corpus: Sequence[LabelledSeries], scored: Sequence[ScoredSeries], profile: Profile) -> float:
    """The score if each category is scored at the best threshold of all others together."""
    raw = 0.0
    for category in {one.category for one in corpus}:
        parts: dict[bool, list[ScoredSeries]] = {True: [], False: []}
        for one, result in zip(corpus, scored, strict=True):
            parts[one.category == category].append(result)
        raw += result_at(best_result(parts[False], profile).threshold, parts[True], profile).raw
    return normalise(raw, scored, profile)


def _score(model: str, series: LabelledSeries) -> np.ndarray:
    """The scores of a series in the order of its rows."""
    harness = TestHarness(build_job(ANOMALY_PREDICTIONS, {"model": model, "emit": "all"}))
    harness.batch(series.readings)
    harness.batch(advance_to=END_OF_TIME)
    predicted = harness.written["anomaly_predictions"].sort("event_time", "value", maintain_order=True)
    # The job processes events in order of time, then of value.
    rows = series.readings.with_row_index("row").sort("timestamp", pl.col("value") + 0.0, maintain_order=True)["row"]
    if predicted.height != series.readings.height:
        raise KeyfoldError(f"{series.key}: {predicted.height} predictions of {series.readings.height} rows")
    scores = np.empty(len(rows))
    scores[rows.to_numpy()] = predicted["score"].to_numpy()
    return scores


def _by_category(corpus: Sequence[LabelledSeries], scored: Sequence[ScoredSeries]) -> Table:
    """The standard profile's score of each category at the model's own threshold."""
    table = Table("category", "series", "windows", "standard, as shipped", title=DEFAULT_MODEL)
    for category in sorted({one.category for one in corpus}):
        chosen = [result for one, result in zip(corpus, scored, strict=True) if one.category == category]
        result = as_shipped(DEFAULT_MODEL, chosen, STANDARD)
        windows = sum(len(one.windows) for one in chosen)
        shown = f"{result.normalised:.2f}" if windows else f"raw {result.raw + 0.0:.2f}"
        table.add_row(category, str(len(chosen)), str(windows), shown)
    return table


def _by_rate(scored: Sequence[ScoredSeries]) -> Table:
    """The standard profile's score by the requested number of alarms per week."""
    table = Table("alarms a week", "standard", title=DEFAULT_MODEL)
    for rate in RATES:
        result = result_at(float(np.nextafter(2 / (2 + rate), 1.0)), scored, STANDARD)
        table.add_row(f"{rate:g}", f"{result.normalised:.1f}")
    return table


if __name__ == "__main__":
    main()
