"""What each part of the model `rarity` is good for: `python -m benchmarks.ablation [--data DIR] [--seeds 1 2]`.

Printed are the standard scores of the Numenta benchmark's series and of generated ones (`benchmarks.generated_series`),
at the best threshold and as shipped:

- `parts`: the model with each part left out, and with one kind of part alone;
- `constants`: the model with each constant half as large and half as large again, or at the nearest whole number, all
  others as they are: a model whose score falls with every step aside was fitted.
"""

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from benchmarks.generated_series import labelled_corpus
from benchmarks.nab import DATA
from benchmarks.nab_corpus import LabelledSeries, read_corpus
from benchmarks.nab_scoring import STANDARD, ScoredSeries, best_result, result_at
from spark_jobs.jobs.anomaly_predictions.models import daily_bands, episodes, largest, levels, rarity, stays, views
from spark_jobs.jobs.anomaly_predictions.models.rarity import PARTS, Rarity
from spark_jobs.jobs.anomaly_predictions.models.views import VIEWS

ABOVE = float(np.nextafter(Rarity.threshold, 1.0))

Change = tuple[str, list[tuple[ModuleType, str, float]]]
CONSTANTS: list[Change] = [
    *((f"{days} days of comparison", [(daily_bands, "DAYS", days)]) for days in (4, 10)),
    *((f"{reach} half hours to either side", [(daily_bands, "REACH", reach)]) for reach in (0, 2)),
    *((f"{share} of the days, not a quarter", [(daily_bands, "QUARTILE", share)]) for share in (0.125, 0.375)),
    *((f"envelope of {cells / 2:g} hours", [(daily_bands, "ENVELOPE", cells)]) for cells in (3, 9)),
    *((f"{run} strays in a row", [(views, "LASTING", run), (rarity, "LASTING", run)]) for run in (3, 7)),
    *((f"{number} levels", [(levels, "LEVELS", number), (levels, "_SLOTS", number + 2)]) for number in (16, 48)),
    *((f"prior of {events} events", [(levels, "PRIOR", events)]) for events in (0.5, 1.5)),
    *((f"levels from {events} events on", [(levels, "FIRST", events)]) for events in (10, 30)),
    *((f"counts halved every {events}", [(levels, "HALVED_EVERY", events)]) for events in (8_000, 24_000)),
    *((f"stays of {events} events", [(stays, "NOTICED", events)]) for events in (3, 7)),
    *(
        (f"{events} events remembered", [(largest, "HORIZON", events), (rarity, "HORIZON", events)])
        for events in (8_640, 25_920)
    ),
    *((f"{days} days remembered", [(rarity, "LONGEST", days)]) for days in (30, 90)),
    *((f"head start of {events} events", [(largest, "HEAD_START", events)]) for events in (1_008, 3_024)),
    *((f"{number} surprises remembered", [(largest, "REMEMBERED", number)]) for number in (10, 30)),
    *((f"not as rare for {events} events", [(episodes, "LATE", events)]) for events in (144, 432)),
    *((f"rest of {share} of the events", [(episodes, "REST", share)]) for share in (1 / 64, 3 / 64)),
    *((f"rest of at most {events} events", [(episodes, "LONGEST_REST", events)]) for events in (72, 216)),
    *((f"{factor} times as rare breaks the rest", [(episodes, "MUCH_RARER", factor)]) for factor in (1.0, 3.0)),
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
            model, changes = (what, []) if isinstance(what, Rarity) else (Rarity(), what)
            with changed(changes):
                figures = [figure for corpus in (found, made) for figure in _figures(score(model, corpus))]
            table.add_row(name, *(f"{figure:.1f}" for figure in figures))
        console.print(table)


def score(model: Rarity, corpus: Sequence[LabelledSeries]) -> list[ScoredSeries]:
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


def _parts() -> list[tuple[str, Rarity]]:
    return [
        ("all", Rarity()),
        *((f"without {part}", Rarity(tuple(one for one in PARTS if one != part))) for part in PARTS),
        ("views alone", Rarity(VIEWS)),
        *((f"{part} alone", Rarity((part,))) for part in ("level", "stay")),
    ]


def _figures(scored: Sequence[ScoredSeries]) -> tuple[float, float]:
    return best_result(scored, STANDARD).normalised, result_at(ABOVE, scored, STANDARD).normalised


if __name__ == "__main__":
    main()
