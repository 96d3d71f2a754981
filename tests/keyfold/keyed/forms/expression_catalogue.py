"""`python -m tests.keyfold.keyed.forms.expression_catalogue`: write the canonical forms of many expressions, one a line.

They are the forms that records of generations have. So a line of before changes only with `generation_record.FORMAT`: otherwise a
generation would be refused after an upgrade. The file is made with one version of Polars and read with the others.

Left out are `explode()` and `list.explode()` without options, which mean another thing before Polars 2: they keep an empty list as
a row there.
"""

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import polars_hash  # noqa: F401 - gives expressions their `nchash`

from keyfold.keyed.forms.expressions import expression_tree

CATALOGUE = Path(__file__).with_suffix(".jsonl")
NAMES = {
    "pl": pl, "col": pl.col, "lit": pl.lit, "Decimal": Decimal, "UTC": UTC,
    "date": date, "datetime": datetime, "time": time, "timedelta": timedelta,
}  # fmt: skip


def catalogue() -> dict[str, Any]:
    """The canonical forms of the file, by the text of the expression."""
    return dict(json.loads(line) for line in CATALOGUE.read_text().splitlines())


def form_of(text: str) -> Any:
    """The canonical form of an expression by its text, as JSON gives it back."""
    expression = eval(text, dict(NAMES))  # noqa: S307 - a line of the catalogue
    return json.loads(json.dumps(expression_tree(expression, lambda _: "a function")))


def main() -> None:
    texts = [json.loads(line)[0] for line in CATALOGUE.read_text().splitlines()]
    CATALOGUE.write_text("".join(json.dumps([text, form_of(text)], ensure_ascii=False) + "\n" for text in texts))


if __name__ == "__main__":
    main()
