"""What each part of the model `rarest_view` is good for: `python -m benchmarks.ablation [--data DIR] [--seeds 1 2]`.

Printed are the standard scores of the Numenta benchmark's series and of generated ones (`benchmarks.generated_series`),
at the best threshold and as shipped:

- `parts`: the model with each view left out, with each view alone, and without the second ranking;
- `constants`: the model with each constant at a smaller and at a larger value, all others as they are: a model whose
  score falls with every step aside was fitted;
- `nested`: of all sets of views the one that is best on the other categories, judged on the category left out.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.generated_series import labelled_corpus
from benchmarks.nab import DATA
from benchmarks.nab_corpus import LabelledSeries, read_corpus
from benchmarks.nab_scoring import STANDARD, ScoredSeries, best_result, normalise, result_at
from spark_jobs.jobs.anomaly_predictions.models import daily_bands, episodes, largest, rarest_view, views
from spark_jobs.jobs.anomaly_predictions.models.rarest_view import RarestView
from spark_jobs.jobs.anomaly_predictions.models.views import VIEWS

DAY, HOUR = largest.MICROSECONDS_A_DAY, episodes.HOUR
ABOVE = float(np.nextafter(RarestView.threshold, 1.0))

Change = tuple[str, list[tuple[ModuleType, str, float]]]
CONSTANTS: list[Change] = [
    *((f"{days} days of comparison", [(daily_bands, "DAYS", days)]) for days in (5, 6, 8, 10)),
    *((f"{reach} half hours to either side", [(daily_bands, "REACH", reach)]) for reach in (0, 2)),
    *((f"{share} of the days, not a quarter", [(daily_bands, "QUARTILE", share)]) for share in (0.15, 0.2, 0.35)),
    *((f"envelope of {cells / 2:g} hours", [(daily_bands, "ENVELOPE", cells)]) for cells in (4, 8, 12)),
    *((f"{run} strays in a row", [(views, "LASTING", run), (rarest_view, "LASTING", run)]) for run in (3, 4, 6, 8)),
    *((f"{days} days remembered", [(largest, "HORIZON", days * DAY)]) for days in (30, 120)),
    *((f"head start of {days} days", [(largest, "HEAD_START", days * DAY)]) for days in (3, 5, 10)),
    *((f"{number} surprises remembered", [(largest, "REMEMBERED", number)]) for number in (16, 64)),
    *((f"not as rare for {hours} hours", [(episodes, "REMEMBERED_FOR", hours * HOUR)]) for hours in (48, 72, 168)),
    *((f"quiet for {hours} hours", [(episodes, "QUIET_FOR", hours * HOUR)]) for hours in (0, 6, 18, 24)),
    *((f"{factor} times as rare breaks the quiet", [(episodes, "MUCH_RARER", factor)]) for factor in (1.5, 4.0)),
]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of category/series.csv[.gz] and windows.json")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="each makes every generated series anew")
    arguments = parser.parse_args()
    found, made = read_corpus(arguments.data), labelled_corpus(arguments.seeds)
    console = Console(width=110)
    for title, variants in (("parts", _parts()), ("constants", CONSTANTS)):
        table = Table(title, "found: best", "as shipped", "made: best", "as shipped")
        for name, what in variants:
            model, changes = (what, []) if isinstance(what, RarestView) else (RarestView(), what)
            with changed(changes):
                figures = [figure for corpus in (found, made) for figure in _figures(score(model, corpus))]
            table.add_row(name, *(f"{figure:.1f}" for figure in figures))
        console.print(table)
    console.print(_nested(found))


def score(model: RarestView, corpus: Sequence[LabelledSeries]) -> list[ScoredSeries]:
    """Score all series in one call, as the job would with `min_events` 0."""
    rows = pl.concat([one.readings for one in corpus]).rename({"timestamp": "event_time"})
    events = rows.with_columns(pl.col("value") + 0.0).with_row_index("row").sort("key", "event_time", "value")
    keys = events["key"].unique().sort()
    predicted, _ = model.predict_then_learn(model.initial(keys), events.drop("row"))
    scores = np.empty(rows.height)
    scores[events["row"].to_numpy()] = predicted["score"].to_numpy()
    ends = np.cumsum([one.readings.height for one in corpus])
    return [ScoredSeries(part, one.windows) for part, one in zip(np.split(scores, ends[:-1]), corpus, strict=True)]


@contextmanager
def changed(changes: Sequence[tuple[ModuleType, str, float]]) -> Iterator[None]:
    """The modules' constants at other values."""
    before = [(module, name, getattr(module, name)) for module, name, _ in changes]
    for module, name, value in changes:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def _parts() -> list[tuple[str, RarestView]]:
    return [
        ("all", RarestView()),
        *((f"without {view}", RarestView(tuple(one for one in VIEWS if one != view))) for view in VIEWS),
        *((f"{view} alone", RarestView((view,))) for view in VIEWS),
        ("ranked once only", RarestView(ranked_again=False)),
    ]


def _figures(scored: Sequence[ScoredSeries]) -> tuple[float, float]:
    return best_result(scored, STANDARD).normalised, result_at(ABOVE, scored, STANDARD).normalised


def _nested(corpus: Sequence[LabelledSeries]) -> Table:
    """Choose the views without a category, judge on it, as shipped."""
    sets = [chosen for size in range(1, len(VIEWS) + 1) for chosen in combinations(VIEWS, size)]
    scored = {chosen: score(RarestView(chosen), corpus) for chosen in sets}
    table = Table("category left out", "views chosen on the others", "there", "here")
    raw = 0.0
    for category in sorted({one.category for one in corpus}):
        is_here = [one.category == category for one in corpus]
        figures = {
            chosen: result_at(ABOVE, _where(results, is_here, here=False), STANDARD).normalised
            for chosen, results in scored.items()
        }
        best = max(figures, key=lambda chosen: figures[chosen])
        here = result_at(ABOVE, _where(scored[best], is_here, here=True), STANDARD)
        raw += here.raw
        table.add_row(category, ", ".join(best), f"{figures[best]:.1f}", f"{here.normalised:.1f}")
    total = normalise(raw, scored[VIEWS], STANDARD)
    table.add_row("all together", "", "", f"{total:.1f}")
    return table


def _where(scored: Sequence[ScoredSeries], is_here: Sequence[bool], *, here: bool) -> list[ScoredSeries]:
    return [one for one, is_it in zip(scored, is_here, strict=True) if is_it == here]


if __name__ == "__main__":
    main()
