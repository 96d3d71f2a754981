"""Parts of aggregates: what is kept per group so that more rows can be added, and how an aggregate is made of them.

| aggregate | parts |
|---|---|
| sum of whole numbers and decimals, count, min, max | itself |
| sum of floats | a scale and three whole numbers, see `_Maker.float_sum` |
| mean | the parts of the sum, and the number of values |
| over_pairs | the parts of the sum of what each two consecutive events give |
| sum_of_decreases | those, and the last known value |
| first, last | the value; in any order also the event time of its event and the columns that order simultaneous ones |
| distinct, count_distinct, quantile, collect | the values, up to a bound |

All operators have these. Those that take events in any order join the parts of rows by group (`combined_rows`), those that take
them in order join the parts of consecutive rows (`ranges`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl
import pyarrow as pa

from keyfold.columns import column
from keyfold.keyed.rows.codec import plain_float, polars_schema
from keyfold.operators.aggregation.aggregates import Aggregate, Types
from keyfold.operators.aggregation.float_limbs import BITS, HIGHEST, LOWEST, NOT_FINITE
from keyfold.privacy import ShowableError
from keyfold.schemas import arrow_type
from keyfold.stream import TIMESTAMP

Join = Literal["sum", "min", "max", "first", "last", "last known", "scale", "limb", "sorted", "set", "list"]
"""How a part of several rows is made of their parts. `sum` is exact, `limb` follows the greatest `scale` of the rows."""


class Naming:
    """Names the columns of parts: by their aggregate, with underscores in front if another column of the job has that name.

    Args:
        taken: names of other columns.
        of: the aggregates, each of which may have a part of its own name.
    """

    def __init__(self, taken: Iterable[str], of: Iterable[str]) -> None:
        self._taken, self._of = {*taken}, {*of}
        self._common = dict[str, str]()

    def name(self, aggregate: str, suffix: str = "") -> str:
        """Return a name that no other column has."""
        name = f"{aggregate}{suffix}"
        while name in self._taken or (suffix and name in self._of):
            name = f"_{name}"
        self._taken.add(name)
        return name

    def common(self, suffix: str) -> str:
        """Return the name of a column that aggregates have in common."""
        if suffix not in self._common:
            self._common[suffix] = self.name("", suffix)
        return self._common[suffix]


class TooManyValuesError(ShowableError, ArithmeticError):
    """A group has more values than its aggregate keeps."""


_UNITS = pl.Series([2.0 ** (BITS * scale) for scale in range(LOWEST, HIGHEST + 1)])
# The unit of the last part of a sum, two below its scale. The lowest scales have none: there, the sum is scaled twice.
_TWO_BELOW = pl.concat([_UNITS[[0, 0]], _UNITS[:-2]])
_FURTHER_BELOW = pl.Series([2.0 ** (-BITS * max(2 - place, 0)) for place in range(_UNITS.len())])


@dataclass(frozen=True)
class Part:
    """A column of what is kept of an aggregate.

    Attributes:
        column: the column of state.
        value: its value of one event.
        join: how it is joined.
    """

    column: pa.Field
    value: pl.Expr
    join: Join

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.column.name

    @property
    def of_nothing(self) -> pl.Expr:
        """Its value of no events: joined with others, it changes none."""
        kind = polars_schema(pa.schema([self.column]))[self.name]
        match self.join:
            case "sum":
                return pl.lit(0, kind)
            case "sorted" | "set" | "list":
                return pl.lit(pl.Series([[]], dtype=kind)).first()
            case _:
                return pl.lit(None, kind)


@dataclass(frozen=True)
class Parts:
    """What is kept of an aggregate.

    Attributes:
        parts: the columns.
        result: the aggregate, an expression over the columns.
        at_most: how many values a group may have, for those that keep them.
        order: columns by which first and last rows are found, where events come in any order.
        in_order: columns that are computed of events in order, before the parts of each, by name.
        floats: the values of a sum of floats, whose parts can be made by `scale_and_limbs`.
        skips: whether the first event of a range gives nothing, since it has no event before it; or the first known one.
    """

    parts: Sequence[Part]
    result: pl.Expr
    at_most: int = 0
    order: Sequence[str] = ()
    in_order: Mapping[str, pl.Expr] = field(default_factory=dict)
    floats: pl.Expr | None = None
    skips: Literal["", "first", "first known"] = ""

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [part.name for part in self.parts]

    def of(self, *joins: Join) -> list[str]:
        """The columns that are joined in one of these ways."""
        return [part.name for part in self.parts if part.join in joins]

    def check(self, name: str, groups: pl.DataFrame) -> None:
        """Check that no group has more values than are kept.

        Raises:
            TooManyValuesError: one has.
        """
        if self.at_most:
            for column_ in self.of("sorted", "set", "list"):
                check_number(name, groups[column_].list.len(), self.at_most)


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


def parts_of(
    name: str, aggregate: Aggregate, types: Types, event_time: str, naming: Naming, ties: pa.Schema | None
) -> Parts:
    """Return the parts of an aggregate.

    Args:
        name, aggregate: the aggregate.
        types: its types.
        event_time: the column of event time.
        naming: names their columns.
        ties: the columns that order simultaneous events, which come in any order; None if events come in order.
    """
    value = aggregate.value.cast(types.value) if types.converted else aggregate.value
    make = _Maker(name, value, types.value, event_time, naming, list(dict.fromkeys(aggregate.value.meta.root_names())))
    match aggregate.kind:
        case "count" | "sum" | "mean":
            return make.sum(value, mean=aggregate.kind == "mean")
        case "over_pairs":
            return make.over_pairs()
        case "sum_of_decreases":
            return make.sum_of_decreases()
        case "min" | "max":
            part = make.part("", types.value, f"The {aggregate.kind} of the values", value, aggregate.kind)
            return Parts([part], pl.col(part.name))
        case "first" | "last":
            return make.first_or_last(aggregate.kind, ties)
        case "distinct" | "count_distinct" | "quantile" | "collect":
            return make.values(aggregate, in_order=ties is None)


@dataclass(frozen=True)
class _Maker:
    """Makes the parts of an aggregate of this name and value."""

    name: str
    value: pl.Expr
    kind: pl.DataType
    event_time: str
    naming: Naming
    lineage: list[str]

    def part(self, name: str, kind: pl.DataType | pa.DataType, meaning: str, value: pl.Expr, join: Join) -> Part:
        described = column(
            self.naming.name(self.name, name), arrow_type(kind), meaning, lineage=self.lineage, nullable=True
        )
        return Part(described, value, join)

    def sum(self, value: pl.Expr, *, mean: bool = False) -> Parts:
        if self.kind.is_float():
            return self.float_sum(value, mean=mean)
        # Exact, in 38 digits or 64 bits.
        kind = pl.Decimal(38, self.kind.scale) if isinstance(self.kind, pl.Decimal) else pl.Int64()
        total = self.part(
            "_sum" if mean else "", kind, "Sum of the values", value if kind == self.kind else value.cast(kind), "sum"
        )
        if not mean:
            return Parts([total], pl.col(total.name))
        number = self.number(value)
        average = pl.col(total.name).cast(pl.Float64) / pl.col(number.name)
        return Parts([total, number], pl.when(pl.col(number.name) > 0).then(average))

    def number(self, value: pl.Expr) -> Part:
        return self.part("_n", pa.int64(), "How many values", value.is_not_null().cast(pl.Int64), "sum")

    def over_pairs(self) -> Parts:
        pair = self.naming.name(self.name, "_pair")
        summed = self.sum(pl.col(pair))
        return replace(summed, in_order={pair: self.value}, skips="first")

    def sum_of_decreases(self) -> Parts:
        level = self.part("_level", self.kind, "The last known value", self.value, "last known")
        decrease = self.naming.name(self.name, "_decrease")
        summed = self.sum(pl.col(decrease))
        # In 128 bits, since a difference of numbers of 64 bits may overflow; a sum is fitted into its column.
        level_value = pl.col(level.name).cast(pl.Int128) if self.kind.is_integer() else pl.col(level.name)
        before = level_value.forward_fill().shift()
        result = pl.when(pl.col(level.name).is_not_null()).then(summed.result)
        decreases = {decrease: pl.when(before > level_value).then(before - level_value)}
        return replace(summed, parts=[level, *summed.parts], result=result, in_order=decreases, skips="first known")

    def float_sum(self, value: pl.Expr, *, mean: bool) -> Parts:
        """A sum or mean of floats that does not depend on the order of its rows.

        Each float is cut at fixed powers of 2**32 into three whole numbers, and these are summed exactly. What is more than 64 bits
        below the greatest value of a group, or below 2**-1056, is left out, wherever it comes. Source: J. Demmel, H. D. Nguyen,
        "Parallel reproducible summation", IEEE Transactions on Computers 64 (2015), section 4.
        """
        value = value.cast(pl.Float64)
        place = pl.lit(_UNITS).search_sorted(value.abs(), side="right").cast(pl.Int64) - 1
        place = place.clip(lower_bound=0)
        rest, values = value.abs() / pl.lit(_UNITS).gather(place), list[pl.Expr]()
        for _ in range(3):
            values.append((rest.floor() * value.sign()).cast(pl.Int64, strict=False))
            # Exact, as the remainder of a positive float by 1 is.
            rest = rest % 1.0 * 2.0**BITS
        # Of values that are not finite, their numbers.
        others = (value == float("inf"), value == float("-inf"), value.is_nan())
        finite = value.is_finite()
        of_scale = pl.when(finite).then(place + LOWEST).when(value.is_not_null()).then(NOT_FINITE)
        scale = self.part("_scale", pa.int64(), "Scale of the sum, a power of 2**32", of_scale, "scale")
        limbs = [
            self.part(
                f"_sum{number}",
                pa.int64(),
                "Part of the sum",
                pl.when(finite).then(limb).otherwise(other.cast(pl.Int64)),
                "limb",
            )
            for number, (limb, other) in enumerate(zip(values, others, strict=True))
        ]
        parts = [scale, *limbs]
        of_limbs = [pl.col(limb.name) for limb in limbs]
        total = (of_limbs[0].cast(pl.Int128) * 2**BITS + of_limbs[1]) * 2**BITS + of_limbs[2]
        place = (pl.col(scale.name) - LOWEST).clip(0, _UNITS.len() - 1)
        unit, below = (pl.lit(factors).gather(place) for factors in (_TWO_BELOW, _FURTHER_BELOW))
        infinite, negative, undefined = (limb > 0 for limb in of_limbs)
        result = (
            pl.when(pl.col(scale.name) <= HIGHEST)
            .then(total.cast(pl.Float64) * unit * below)
            .when(undefined | (infinite & negative))
            .then(float("nan"))
            .when(infinite)
            .then(float("inf"))
            .when(negative)
            .then(float("-inf"))
        )
        if not mean:
            # A group without values has no scale; its sum is 0, as that of whole numbers is, and its mean is NULL.
            return Parts(parts, result.fill_null(0.0), floats=value)
        number = self.number(value)
        return Parts([*parts, number], result / pl.col(number.name), floats=value)

    def first_or_last(self, join: Literal["first", "last"], ties: pa.Schema | None) -> Parts:
        """The value of the first or last event; of simultaneous ones in order of `ties`, missing values first.

        Events that are equal in all of these must have the same value.
        """
        value_part = self.part("", self.kind, f"The {join} value", self.value, join)
        if ties is None:
            return Parts([value_part], pl.col(value_part.name))
        # All of a job take the same event, and have these in common.
        time, order = (self.naming.common(f"{join}_{suffix}") for suffix in ("at", "ties"))
        at = column(time, TIMESTAMP, f"Event time of the {join} value (UTC)", lineage=[self.event_time], nullable=True)
        tied = column(
            order, pa.struct(list(ties)), "What orders simultaneous events", lineage=ties.names, nullable=True
        )
        parts = [value_part, Part(at, pl.col(self.event_time), join), Part(tied, pl.struct(ties.names), join)]
        return Parts(parts, pl.col(value_part.name), order=(time, order))

    def values(self, aggregate: Aggregate, *, in_order: bool) -> Parts:
        """The set of values, their number, a quantile of them, or all of them in order of event time."""
        value = plain_float(self.value, self.kind) if self.kind.is_float() else self.value
        kind, listed, join = pl.List(self.kind), pl.concat_list(value), "sorted"
        if self.kind.is_nested():
            # Of lists, `concat_list` makes one list of their elements.
            listed = pl.concat_list(pl.struct(value=value)).list.eval(pl.element().struct.field("value"))
        if aggregate.kind == "distinct":
            is_wanted = pl.element().is_not_null() & ~pl.element().is_in(aggregate.ignored)
            kind, listed, join = self.kind, value.list.eval(pl.element().filter(is_wanted)), "set"
        elif aggregate.kind == "collect" and in_order:
            join = "list"
        elif aggregate.kind == "collect":
            listed = pl.concat_list(pl.struct(at=pl.col(self.event_time), value=value))
            kind = pl.List(pl.Struct({"at": pl.Datetime("us", "UTC"), "value": self.kind}))
        else:
            listed, join = listed.list.drop_nulls(), "set" if aggregate.kind == "count_distinct" else "sorted"
        part = self.part("" if aggregate.kind == "distinct" else "_values", kind, "The values", listed, join)
        result = pl.col(part.name)
        if aggregate.kind == "count_distinct":
            result = result.list.len().cast(pl.Int64)
        elif aggregate.kind == "quantile":
            result = result.list.eval(pl.element().cast(pl.Float64).quantile(aggregate.q, "linear")).list.first()
        elif join == "sorted":
            result = result.list.eval(pl.element().struct.field("value"))
        return Parts([part], result, aggregate.at_most)
