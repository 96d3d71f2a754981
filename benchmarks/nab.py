"""Score the models on the Numenta Anomaly Benchmark: `python -m benchmarks.nab [MODEL …]`.

Each series is a metric of the job `anomaly_predictions`, whose own step scores its rows. Each row is scored by a model that has
learned only the rows before it. For each model and profile are printed:

- `best`: the score at the best threshold for these series, as in the benchmark's own table of results;
- `category left out`: the score if each category is scored at the best threshold of the others, as an estimate for other kinds
  of metrics;
- `as shipped`: the score at the model's own threshold;
- `µs an event`: the model's processor time if one call has all series as a whole, the best of three.

For the default model, the scores are also printed by category.
"""

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.nab_scoring import PROFILES, STANDARD, Profile, Result, ScoredSeries, best_result, normalise, result_at
from benchmarks.runs import print_table
from keyfold import TestHarness, build_job
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.jobs.anomaly_predictions.models import MODELS
from spark_jobs.streams import METRICS

DATA = Path(__file__).parents[1] / "tests" / "data" / "nab"
"""A folder of `category/series.csv.gz`, and of `windows.json` with the first and last time of each series' labelled windows."""

DEFAULT_MODEL = "rarity"
END_OF_TIME = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LabelledSeries:
    """A series and its windows.

    Attributes:
        key: `category/series`.
        readings: `key`, `timestamp` (taken as UTC) and `value`, in the order of the file.
        windows: first and last row of each window.
    """

    key: str
    readings: pl.DataFrame
    windows: tuple[tuple[int, int], ...]

    @property
    def category(self) -> str:
        return self.key.partition("/")[0]


def main() -> None:
    corpus, models = read_corpus(DATA), sys.argv[1:] or list(MODELS)
    if unknown := set(models) - set(MODELS):
        sys.exit(f"no model {', '.join(sorted(unknown))}; there are: {', '.join(MODELS)}")
    print_scores(corpus, models)


def print_scores(corpus: Sequence[LabelledSeries], models: Sequence[str]) -> None:
    """Print the tables of scores."""
    rows: list[list[str]] = []
    for name in models:
        scored, cost = score_corpus(name, corpus), bulk_cost(name, corpus)
        for profile in PROFILES:
            best, shipped = best_result(scored, profile), as_shipped(name, scored, profile)
            figures = (best.normalised, best.threshold, category_left_out(corpus, scored, profile), shipped.normalised)
            rows.append([name, profile.name, *(f"{figure:.4g}" for figure in figures), f"{cost:.1f}"])
        if name == DEFAULT_MODEL:
            print_table(name, ("category", "series", "windows", "standard, as shipped"), _by_category(corpus, scored))
    headings = ("model", "profile", "best", "at threshold", "category left out", "as shipped", "µs an event")
    print_table(f"{len(corpus)} series, {sum(labelled.readings.height for labelled in corpus)} rows", headings, rows)


def read_corpus(folder: Path) -> list[LabelledSeries]:
    """Read all series below a folder, in the order of their keys."""
    windows = json.loads((folder / "windows.json").read_text(encoding="utf-8"))
    return [_read(path, windows) for path in sorted(folder.glob("*/*.csv.gz"))]


def _read(path: Path, windows: dict[str, list[list[str]]]) -> LabelledSeries:
    key = f"{path.parent.name}/{path.name.removesuffix('.csv.gz')}"
    time = pl.col("timestamp").str.to_datetime(time_unit="us", time_zone="UTC")
    rows = pl.read_csv(path, schema_overrides={"value": pl.Float64}).select(pl.lit(key).alias("key"), time, "value")
    anomalies = list[tuple[int, int]]()
    for limits in windows[f"{key}.csv"]:
        first, last = (
            rows["timestamp"].index_of(datetime.fromisoformat(limit).replace(tzinfo=UTC)) for limit in limits
        )
        assert first is not None and last is not None, f"{key} has no row at {' or '.join(limits)}"  # noqa: S101, PT018
        anomalies.append((first, last))
    return LabelledSeries(key, rows.select(METRICS.schema.names), tuple(anomalies))


def score_corpus(model: str, corpus: Sequence[LabelledSeries]) -> list[ScoredSeries]:
    """Score all rows of all series by the job's step. Each series is a key."""
    return [ScoredSeries(_score(model, series), series.windows) for series in corpus]


def bulk_cost(name: str, corpus: Sequence[LabelledSeries]) -> float:
    """Processor time of predicting and learning all series in one call, in microseconds per event."""
    rows = pl.concat([series.readings for series in corpus]).rename({"timestamp": "event_time"})
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
    for category in {series.category for series in corpus}:
        parts: dict[bool, list[ScoredSeries]] = {True: [], False: []}
        for series, result in zip(corpus, scored, strict=True):
            parts[series.category == category].append(result)
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
    scores = np.empty(len(rows))
    scores[rows.to_numpy()] = predicted["score"].to_numpy()
    return scores


def _by_category(corpus: Sequence[LabelledSeries], scored: Sequence[ScoredSeries]) -> list[list[str]]:
    """The standard profile's score of each category at the model's own threshold."""
    rows: list[list[str]] = []
    for category in sorted({series.category for series in corpus}):
        chosen = [result for series, result in zip(corpus, scored, strict=True) if series.category == category]
        result, windows = as_shipped(DEFAULT_MODEL, chosen, STANDARD), sum(len(series.windows) for series in chosen)
        shown = f"{result.normalised:.2f}" if windows else f"raw {result.raw + 0.0:.2f}"
        rows.append([category, str(len(chosen)), str(windows), shown])
    return rows


if __name__ == "__main__":
    main()
