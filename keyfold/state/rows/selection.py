"""Select and rename columns."""

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from keyfold.errors import InvalidData


def selected(where: str, columns: Mapping[str, str], there: Iterable[str]) -> dict[str, str]:
    """Check the selected columns, and return them with their new names.

    Args:
        where: describes the rows, for messages.
        columns: new names, by column.
        there: the columns that the rows have.

    Raises:
        KeyfoldError: a column does not exist, or two have the same name.
    """
    there, names = list(there), list(columns.values())
    if unknown := [name for name in columns if name not in there]:
        raise InvalidData(f"{where}: no column {', '.join(unknown)}; there are {', '.join(there)}")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidData(f"{where}: two columns would have the name {', '.join(twice)}; give each its own")
    return dict(columns)


def select_columns(frame: DataFrame, columns: Mapping[str, str], where: str) -> DataFrame:
    """Select columns of a Spark frame, and rename them; without a selection, the frame is returned unchanged.

    Raises:
        KeyfoldError: as `selected`.
    """
    if not columns:
        return frame
    return frame.select(*(F.col(f"`{old}`").alias(new) for old, new in selected(where, columns, frame.columns).items()))
