"""`keyfold explain`: say why a table has the rows of a key that it has, or none."""

from typing import Annotated

import typer

from keyfold.cli.terminal import report
from keyfold.lakehouse import Lakehouse
from keyfold.runs.explaining.explain import explain as explanation_of


def explain(
    lakehouse: Lakehouse,
    table: Annotated[str, typer.Argument(help="A job's table, or late.JOB.")],
    key: Annotated[str, typer.Argument(help="The key of the job; a JSON object if it has several columns.")],
    row: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only this row, by its number in the list of all rows.")
    ] = None,
) -> None:
    """Explain the rows of a key, or why it has none: its events, the batches that read them, timers, states and rows.

    The events are played again with the clocks of the journal; what comes out must be what is stored, or the command says what differs,
    and what may be why. Private columns are masked.
    """
    explanation = explanation_of(lakehouse, table, key, row=row)
    report(explanation, str(explanation))
