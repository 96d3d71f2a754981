"""`python -m benchmarks.scale.model [CELLS …]`: a model of what a batch takes, fitted to measured cells.

A quantity (processor seconds, bytes) is a sum of terms, each a price times a number that a cell's settings say: events, key
groups called, rows of state rewritten and so on. Prices are never below nothing, and are those that make the relative errors
least, since cells differ by a factor of a thousand. Cells that the fit has not seen say what it is worth.
"""

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Settings = Mapping[str, Any]
Term = Callable[[Settings], float]

MEASURED = Path(__file__).parent / "measured.jsonl"
"""The cells behind docs/explanation/scale.md."""


def touched_groups(cell: Settings) -> float:
    """How many key groups get events: drawn evenly, some of them get none."""
    groups = cell["key_groups"] * cell["groups_touched"]
    return groups * -math.expm1(-cell["events"] / groups)


def rewritten_rows(cell: Settings) -> float:
    """Rows of state of the key groups that get events: all of them are read and written."""
    return cell["keys"] * cell["rows_a_key"] * touched_groups(cell) / cell["key_groups"]


def rewritten_bytes(cell: Settings) -> float:
    """Bytes of those rows' blobs."""
    return cell["blob_bytes"] * touched_groups(cell)


PROCESSOR: dict[str, Term] = {
    "a batch, s": lambda cell: 1.0,
    "a million events, s": lambda cell: cell["events"] / 1e6,
    "a thousand key groups, s": lambda cell: cell["key_groups"] / 1e3,
    "a thousand key groups with events, s": lambda cell: touched_groups(cell) / 1e3,
    "a million rows of state rewritten, s": lambda cell: rewritten_rows(cell) / 1e6,
    "a partition of state, s": lambda cell: cell["partitions"],
}
"""What processor seconds of a batch are made of."""

CHECKPOINT: dict[str, Term] = {
    "a byte of state rewritten, B": rewritten_bytes,
    "a key group with events, B": touched_groups,
    "a partition of state, B": lambda cell: cell["partitions"],
}
"""What bytes of the checkpoint a batch are made of."""

FILES: dict[str, Term] = {
    "a partition of state": lambda cell: cell["partitions"],
    "64 MB of state rewritten": lambda cell: rewritten_bytes(cell) / 2**26,
}
"""What files of the checkpoint a batch are made of; the half dozen of a batch itself count as the partitions'."""


@dataclass(frozen=True)
class Model:
    """A fitted model.

    Attributes:
        terms: what the quantity is made of, by name.
        prices: of each of them.
    """

    terms: Mapping[str, Term]
    prices: Mapping[str, float]

    def foretell(self, cell: Settings) -> float:
        """The quantity of a cell, measured or not."""
        return sum(self.prices[name] * term(cell) for name, term in self.terms.items())

    def shares(self, cell: Settings) -> dict[str, float]:
        """What each term comes to."""
        return {name: self.prices[name] * term(cell) for name, term in self.terms.items()}


def fit(cells: Sequence[Settings], quantity: str, terms: Mapping[str, Term]) -> Model:
    """Fit prices, none below nothing, to cells that have the quantity measured.

    Raises:
        ValueError: there are fewer cells than terms.
    """
    if len(cells) < len(terms):
        raise ValueError(f"{len(cells)} cells cannot say the prices of {len(terms)} terms: measure more")
    measured = np.array([cell[quantity] for cell in cells], dtype=float)
    # Over what was measured: relative errors, so that the largest cells do not drown the others.
    design = np.array([[term(cell) for term in terms.values()] for cell in cells]) / measured[:, None]
    scale = np.abs(design).max(axis=0)
    prices = _not_negative(design / scale, np.ones(len(cells))) / scale
    return Model(terms, dict(zip(terms, map(float, prices), strict=True)))


def relative_errors(model: Model, cells: Sequence[Settings], quantity: str) -> np.ndarray:
    """By how much what is foretold differs, as a share of what was measured."""
    return np.array([model.foretell(cell) / cell[quantity] - 1 for cell in cells])


def errors_left_out(cells: Sequence[Settings], quantity: str, terms: Mapping[str, Term]) -> np.ndarray:
    """The same, each cell foretold by a fit to all the others."""
    fits = (fit([other for other in cells if other is not cell], quantity, terms) for cell in cells)
    return np.array([relative_errors(model, [cell], quantity)[0] for model, cell in zip(fits, cells, strict=True)])


def _not_negative(design: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Least squares whose answers are not negative (Lawson and Hanson, 1974)."""
    count = design.shape[1]
    answer, free = np.zeros(count), np.zeros(count, bool)
    while True:
        slope = design.T @ (wanted - design @ answer)
        if free.all() or slope[~free].max() <= 1e-9:
            return answer
        free[np.flatnonzero(~free)[slope[~free].argmax()]] = True
        while True:
            tried = np.zeros(count)
            tried[free] = np.linalg.lstsq(design[:, free], wanted, rcond=None)[0]
            if tried[free].min() > 0:
                answer = tried
                break
            # As far towards it as none becomes negative; what is at nothing then stays there.
            bad = free & (tried <= 0)
            step = (answer[bad] / (answer[bad] - tried[bad])).min()
            answer = answer + step * (tried - answer)
            free &= answer > 1e-12


def read_cells(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Measured cells of all these files, in order of their settings."""
    cells = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    return sorted(cells, key=lambda cell: (cell["executors"], cell["keys"], cell["key_groups"], cell["events"]))


def table(cells: Sequence[Settings]) -> str:
    """Cells as the table of docs/explanation/scale.md."""
    head = (
        "keys", "key groups", "with events", "events", "rows a key", "partitions", "executors",
        "s", "processor s: Java, workers", "checkpoint, MB", "files", "Java, workers, MiB", "load",
    )  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|" + "---:|" * len(head)]
    for cell in cells:
        used, peak = cell["processor_of"], cell["peak"]
        java = used.get("java", 0) + used.get("executors", 0)
        row = (
            f"{cell['keys']:,}",
            f"{cell['key_groups']:,}",
            f"{touched_groups(cell):,.0f}",
            f"{cell['events']:,}",
            cell["rows_a_key"],
            cell["partitions"],
            cell["executors"] or "",
            f"{cell['wall']:.2f}",
            f"**{cell['processor']:.2f}**: {java:.2f}, {used.get('workers', 0):.2f}",
            f"{cell['checkpoint_bytes'] / 1e6:,.1f}",
            f"{cell['checkpoint_files']:.0f}",
            f"{(peak.get('java', 0) + peak.get('executors', 0)) / 2**20:,.0f}, {peak.get('workers', 0) / 2**20:,.0f}",
            f"{cell['load']:.0f}",
        )
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.model", description=__doc__)
    parser.add_argument("cells", type=Path, nargs="*", default=[MEASURED])
    # Named here and not at the top: a fit needs no Spark, and the grid's cells bring it.
    from benchmarks.scale.grid import HELD_OUT  # noqa: PLC0415

    cells = read_cells(parser.parse_args().cells)
    print(table(cells))
    # Of executors apart the driver's Java and theirs work: other prices.
    cells = [cell for cell in cells if not cell["executors"]]
    held_out = [one for one in cells if any(_is(one, vars(cell)) for cell in HELD_OUT)]
    seen = [one for one in cells if one not in held_out]
    for quantity, terms in (("processor", PROCESSOR), ("checkpoint_bytes", CHECKPOINT), ("checkpoint_files", FILES)):
        model = fit(seen, quantity, terms)
        errors = relative_errors(model, seen, quantity)
        print(f"{quantity}, of {len(seen)} cells:")
        for name, price in model.prices.items():
            print(f"  {name}: {price:,.4g}")
        print(f"  errors: median {np.median(np.abs(errors)):.0%}, worst {np.abs(errors).max():.0%}")
        if len(seen) > len(terms):
            alone = np.abs(errors_left_out(seen, quantity, terms))
            print(f"  of each cell by a fit to the others: median {np.median(alone):.0%}, worst {alone.max():.0%}")
        for cell, error in sorted(zip(seen, errors, strict=True), key=lambda pair: -abs(pair[1]))[:4]:
            print(f"    {error:+.0%} {_told(cell)}: {cell[quantity]:,.3g}")
        for cell in held_out:
            print(f"  held out: {_told(cell)}: foretold {model.foretell(cell):,.3g}, measured {cell[quantity]:,.3g}")


def _is(cell: Settings, settings: Settings) -> bool:
    return all(cell[name] == value for name, value in settings.items())


def _told(cell: Settings) -> str:
    return (
        f"{cell['keys']:,} keys, {cell['key_groups']:,} groups ({cell['groups_touched']:g} of them), {cell['events']:,} events, "
        f"{cell['rows_a_key']} rows a key, {cell['partitions']} partitions"
    )


if __name__ == "__main__":
    main()
