"""Parts of aggregates: what is kept per group so that more rows can be added in any order, and how an aggregate is made of it.

| aggregate | parts |
|---|---|
| sum of whole numbers and decimals, count, min, max | itself |
| sum of floats | a scale and three whole numbers, see `_float_sum` |
| mean | the parts of the sum, and the number of values |
| first, last | the value, and in common the event time of its event and the columns that order simultaneous ones |
| count_distinct, quantile, collect | the values, up to a bound |
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.errors import Misconfigured
from keyfold.privacy import ShowableError
from keyfold.schemas import arrow_type
from keyfold.stream import TIMESTAMP

_BITS, _LOWEST, _NOT_FINITE = 32, -31, 32
_UNITS = pl.Series([2.0 ** (_BITS * scale) for scale in range(_LOWEST, _NOT_FINITE)])


class TooManyValuesError(ShowableError, ArithmeticError):
    """A group has more values than its aggregate keeps."""


@dataclass(frozen=True)
class Parts:
    """The parts of an aggregate.

    Attributes:
        columns: their columns in state.
        values: their values of one event, by column.
        sums: columns that are summed exactly.
        joined: how the others are combined, by column: expressions over the rows of a group.
        made: the aggregate, an expression over the parts; None if it is its only part.
        scale: the scale of a sum of floats, whose other parts are `limbs`.
        kept: the list of values, of which there may be `at_most`.
        common: columns that several aggregates of a job have together.
    """

    columns: Sequence[pa.Field]
    values: Mapping[str, pl.Expr]
    sums: Sequence[str] = ()
    joined: Mapping[str, pl.Expr] = field(default_factory=dict)
    made: pl.Expr | None = None
    scale: str = ""
    limbs: Sequence[str] = ()
    kept: str = ""
    at_most: int = 0
    common: Sequence[str] = ()

    def aligned(self, rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
        """Return rows whose sums of floats have the greatest scale of their group, so that they can be added."""
        if not self.scale:
            return rows
        # A join takes half of the time of `max().over(by)`.
        greatest = rows.group_by(by).agg(pl.col(self.scale).max().alias("#scale"))
        rows = rows.join(greatest, on=list(by), how="left", nulls_equal=True, maintain_order="left")
        steps, (high, middle, low) = pl.col("#scale") - pl.col(self.scale), map(pl.col, self.limbs)
        nothing = pl.lit(0, pl.Int64)
        return rows.with_columns(
            pl.when(steps == 0).then(high).otherwise(nothing).alias(self.limbs[0]),
            pl.when(steps == 0).then(middle).when(steps == 1).then(high).otherwise(nothing).alias(self.limbs[1]),
            pl.when(steps == 0).then(low).when(steps == 1).then(middle).when(steps == 2).then(high).otherwise(nothing)
            .alias(self.limbs[2]),
            pl.col("#scale").alias(self.scale),
        ).drop("#scale")  # fmt: skip

    def check(self, groups: pl.DataFrame) -> None:
        """Check that no group has more values than are kept.

        Raises:
            TooManyValuesError: one has.
        """
        if self.kept:
            check_number(self.kept.removesuffix("_values"), groups[self.kept].list.len(), self.at_most)


def check_number(name: str, numbers: pl.Series, at_most: int) -> None:
    """Check that no group has more values than its aggregate keeps.

    Raises:
        TooManyValuesError: one has.
    """
    if numbers.len() and (most := int(numbers.max() or 0)) > at_most:  # pyright: ignore[reportArgumentType]
        raise TooManyValuesError(
            f"{name} has {most} values in one group, and keeps at most {at_most}: give a larger at_most, shorter windows, "
            "or a condition"
        )


def plain(name: str, value: pl.Expr, joined: str, kind: pa.Field) -> Parts:
    """A sum of whole numbers or decimals, a minimum or a maximum: its own only part."""
    if joined == "sum":
        return Parts([kind], {name: value}, sums=[name])
    return Parts([kind], {name: value}, joined={name: getattr(pl.col(name), joined)()})


def float_sum(name: str, value: pl.Expr, lineage: Collection[str], *, mean: bool) -> Parts:
    """A sum or mean of floats that does not depend on the order of its rows.

    Each float is cut at fixed powers of 2**32 into three whole numbers, and these are summed exactly. What is more than 64 bits
    below the greatest value of a group, or below 2**-1056, is left out, wherever it comes. Source: J. Demmel, H. D. Nguyen,
    "Parallel reproducible summation", IEEE Transactions on Computers 64 (2015), section 4.
    """
    scale, count = f"{name}_scale", f"{name}_n"
    limbs = [f"{name}_sum{part}" for part in range(3)]
    value = value.cast(pl.Float64)
    place = pl.lit(_UNITS).search_sorted(value.abs(), side="right").cast(pl.Int64) - 1
    place = place.clip(lower_bound=0)
    rest, values = value.abs() / pl.lit(_UNITS).gather(place), list[pl.Expr]()
    for _ in range(3):
        values.append((rest.floor() * value.sign()).cast(pl.Int64, strict=False))
        # Exact, as the remainder of a positive float by 1 is.
        rest = rest % 1.0 * 2.0**_BITS
    # Of values that are not finite, their numbers.
    others = (value == float("inf"), value == float("-inf"), value.is_nan())
    finite = value.is_finite()
    total = (pl.col(limbs[0]).cast(pl.Int128) * 2**_BITS + pl.col(limbs[1])) * 2**_BITS + pl.col(limbs[2])
    unit = pl.lit(_UNITS).gather((pl.col(scale) - _LOWEST).clip(2, _UNITS.len() - 1) - 2)
    infinite, negative, undefined = (pl.col(limb) > 0 for limb in limbs)
    # The lowest scales have no unit two below them: there, the sum is scaled twice.
    below = (2 - (pl.col(scale) - _LOWEST)).clip(0, 2).cast(pl.Float64)
    made = (
        pl.when(pl.col(scale) < _NOT_FINITE)
        .then(total.cast(pl.Float64) * unit * pl.lit(2.0**-_BITS).pow(below))
        .when(undefined | (infinite & negative))
        .then(float("nan"))
        .when(infinite)
        .then(float("inf"))
        .when(negative)
        .then(float("-inf"))
    )
    # A group without values has no scale; its sum is 0, as that of whole numbers is, and its mean is NULL.
    made = made / pl.col(count) if mean else made.fill_null(0.0)
    described = {
        scale: "Scale of the sum, a power of 2**32",
        **dict.fromkeys(limbs, "Part of the sum"),
        count: "How many values",
    }
    return Parts(
        [column(one, pa.int64(), what, lineage=list(lineage), nullable=True) for one, what in described.items()],
        {
            scale: pl.when(finite).then(place + _LOWEST).when(value.is_not_null()).then(_NOT_FINITE),
            **{
                limb: pl.when(finite).then(one).otherwise(other.cast(pl.Int64))
                for limb, one, other in zip(limbs, values, others, strict=True)
            },
            count: value.is_not_null().cast(pl.Int64),
        },
        joined={scale: pl.col(scale).max(), **{one: pl.col(one).sum() for one in (*limbs, count)}},
        made=made,
        scale=scale,
        limbs=limbs,
    )


def exact_mean(name: str, value: pl.Expr, kind: pa.DataType, lineage: Collection[str]) -> Parts:
    """A mean of whole numbers or decimals: their exact sum by their number."""
    total, count = f"{name}_sum", f"{name}_n"
    return Parts(
        [
            column(total, kind, "Sum of the values", lineage=list(lineage), nullable=True),
            column(count, pa.int64(), "How many values", lineage=list(lineage), nullable=True),
        ],
        {total: value, count: value.is_not_null().cast(pl.Int64)},
        sums=[total, count],
        made=pl.when(pl.col(count) > 0).then(pl.col(total).cast(pl.Float64) / pl.col(count)),
    )


def first_or_last(
    name: str,
    value: pl.Expr,
    joined: str,
    kind: pa.DataType,
    event_time: str,
    ties: pa.Schema,
    lineage: Collection[str],
) -> Parts:
    """The value of the first or last event; of simultaneous ones in order of `ties`, missing values first.

    Events that are equal in all of these must have the same value.
    """
    # All of a job take the same event, and have these in common.
    at, tie = f"{joined}_at", f"{joined}_ties"
    order = [pl.col(one) for one in (at, tie)]
    return Parts(
        [
            column(name, kind, f"The {joined} value", lineage=list(lineage), nullable=True),
            column(at, TIMESTAMP, f"Event time of the {joined} value (UTC)", lineage=[event_time], nullable=True),
            column(tie, pa.struct(list(ties)), "What orders simultaneous events", lineage=ties.names, nullable=True),
        ],
        {name: value, at: pl.col(event_time), tie: pl.struct(ties.names)},
        joined={one: getattr(pl.col(one).sort_by(order, nulls_last=False), joined)() for one in (name, at, tie)},
        common=(at, tie),
    )


def kept_values(
    name: str,
    value: pl.Expr,
    joined: str,
    kind: pl.DataType,
    event_time: str,
    lineage: Collection[str],
    at_most: int,
    q: float,
) -> Parts:
    """The number of different values, a quantile of them, or all of them in order of event time: of at most so many."""
    kept = f"{name}_values"
    if joined == "collect":
        one = pl.concat_list(pl.struct(at=pl.col(event_time), value=value))
        kind = pl.Struct({"at": pl.Datetime("us", "UTC"), "value": kind})
        together, made = pl.col(kept).explode().sort(), pl.col(kept).list.eval(pl.element().struct.field("value"))
    else:
        one = pl.concat_list(value)
        together = pl.col(kept).explode().drop_nulls()
        together = (together.unique() if joined == "count_distinct" else together).sort()
        made = pl.col(kept).list.len().cast(pl.Int64)
        if joined == "quantile":
            made = pl.col(kept).list.eval(pl.element().cast(pl.Float64).quantile(q, "linear")).list.first()
    return Parts(
        [column(kept, arrow_type(pl.List(kind)), "The values", lineage=[*lineage, event_time], nullable=True)],
        {kept: one},
        joined={kept: together},
        made=made,
        kept=kept,
        at_most=at_most,
    )


def check_is_number(where: str, kind: pl.DataType) -> None:
    """Check that values can be summed.

    Raises:
        Misconfigured: they cannot.
    """
    if not (kind.is_numeric() or isinstance(kind, pl.Null)):
        raise Misconfigured(f"{where}: {kind} is no number; give a column or an expression of numbers")
