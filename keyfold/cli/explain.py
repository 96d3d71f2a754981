"""`keyfold explain`: say why a table has the rows of a key that it has, or none."""

from pathlib import Path
from typing import Annotated

import typer

from keyfold.cli.terminal import report
from keyfold.lakehouse import Lakehouse
from keyfold.runs.explaining.explain import explain as explanation_of
from keyfold.runs.explaining.explain import explain_as_test


def explain(
    lakehouse: Lakehouse,
    table: Annotated[str, typer.Argument(help="A job's table, late.JOB, or quarantine.STREAM.")],
    key: Annotated[str, typer.Argument(help="The key of the job; a JSON object if it has several columns.")],
    row: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only this row, by its number in the list of all rows.")
    ] = None,
    upstream: Annotated[
        bool, typer.Option("--upstream", help="Also explain the rows of other jobs that are its events.")
    ] = False,
    as_test: Annotated[
        Path | None,
        typer.Option(
            "--as-test", metavar="FILE", help="Write a pytest with its events and clocks that asserts its rows."
        ),
    ] = None,
) -> None:
    """Explain the rows of a key, or why it has none: its events, the batches that read them, timers, states and rows.

    The events are played again with the clocks of the journal; what comes out must be what is stored, or the command says what differs,
    and what may be why. Private columns are masked.
    """
    if as_test is not None:
        explanation, test = explain_as_test(lakehouse, table, key, row=row)
        as_test.write_text(test, encoding="utf-8")
    else:
        explanation = explanation_of(lakehouse, table, key, row=row, upstream=upstream)
    report(explanation, str(explanation))
