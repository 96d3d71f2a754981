"""Score models on generated, labelled series: `python -m benchmarks.generated [--model NAME|all] [--seeds 1 2]`.

Each base is combined with each kind of anomaly and scored as in the Numenta benchmark (standard profile). There are also series
without anomalies. For each model are printed:

- `best`, `as shipped`: as in `benchmarks.nab`; `as shipped` also by kind of anomaly and by base;
- `alarms`: alarms per week in series without anomalies, relative to the stated number, for one and for two a week: the average
  and the worst series. The first two of ten weeks do not count. Only for models that count days.
"""

import argparse
from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.generated_bases import BASES
from benchmarks.generated_series import labelled_corpus, unlabelled
from benchmarks.nab import DEFAULT_MODEL, as_shipped, score_corpus
from benchmarks.nab_corpus import LabelledSeries
from benchmarks.nab_scoring import STANDARD, ScoredSeries, best_result
from spark_jobs.jobs.anomaly_predictions.models import MODELS, find_model

CALM_WEEKS, FIRST_WEEKS = 10, 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generated", description=__doc__)
    parser.add_argument("--model", choices=[*MODELS, "all"], default=DEFAULT_MODEL)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2], help="each generates other series")
    arguments = parser.parse_args()
    corpus = labelled_corpus(arguments.seeds)
    calm = [unlabelled(base, seed, 7 * CALM_WEEKS) for seed in arguments.seeds for base in BASES]
    console = Console(width=110)
    console.print(f"{len(corpus)} labelled series, {sum(one.readings.height for one in corpus)} rows; {len(calm)} calm")
    total = Table("model", "best", "at threshold", "as shipped", "alarms at 1", "worst", "alarms at 2", "worst")
    names = list(MODELS) if arguments.model == "all" else [arguments.model]
    scored = {name: score_corpus(name, corpus) for name in names}
    for name in names:
        best = best_result(scored[name], STANDARD)
        figures = (best.normalised, best.threshold, as_shipped(name, scored[name], STANDARD).normalised)
        total.add_row(name, *(f"{figure:.3g}" for figure in figures), *_alarm_columns(name, calm))
    for part in (total, *(_by(what, names, corpus, scored) for what in ("kind", "base"))):
        console.print(part)


def alarm_shares(model: str, calm: Sequence[LabelledSeries], alarms_per_week: float) -> np.ndarray:
    """Alarms of each series after the first weeks, relative to the stated number. Only for models that count days."""
    half_at = find_model(model).half_at
    if half_at is None:
        raise ValueError(f"{model} does not count days")
    days = 7.0 / alarms_per_week
    shares = []
    for series, scored in zip(calm, score_corpus(model, calm), strict=True):
        time = series.readings["timestamp"].to_physical().to_numpy() / 86_400e6
        counts = time >= time[0] + 7 * FIRST_WEEKS
        alarms = int((scored.scores[counts] > days / (days + half_at)).sum())
        shares.append(alarms / (alarms_per_week * (time[-1] - time[0] - 7 * FIRST_WEEKS) / 7))
    return np.array(shares)


def _alarm_columns(model: str, calm: Sequence[LabelledSeries]) -> list[str]:
    if find_model(model).half_at is None:
        return ["-"] * 4
    shares = [alarm_shares(model, calm, stated) for stated in (1.0, 2.0)]
    return [f"{figure:.2f}" for share in shares for figure in (share.mean(), share.max())]


def _by(
    what: str, names: Sequence[str], corpus: Sequence[LabelledSeries], scored: dict[str, list[ScoredSeries]]
) -> Table:
    """A table of the scores as shipped, by kind of anomaly or by base."""
    table = Table(what, *names, title="as shipped")
    groups = [one.category if what == "kind" else _base(one) for one in corpus]
    for group in dict.fromkeys(groups):
        chosen = {name: [one for one, of in zip(scored[name], groups, strict=True) if of == group] for name in names}
        table.add_row(group, *(f"{as_shipped(name, chosen[name], STANDARD).normalised:.0f}" for name in names))
    return table


def _base(series: LabelledSeries) -> str:
    return series.key.split("/")[1].rsplit("-", 1)[0]


if __name__ == "__main__":
    main()
