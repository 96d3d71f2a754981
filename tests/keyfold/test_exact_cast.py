"""A value of state is the value that was given, or is refused with its column: against plain Python's exact numbers."""

from datetime import UTC, date, datetime
from decimal import Context, Decimal, localcontext

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import InvalidData
from keyfold.exact_cast import exact_cast
from keyfold.keyed.rows.codec import polars_schema
from keyfold.state.making.mapping import StateMapping, check_rows
from keyfold.state.making.sources import fitted
from keyfold.state.rows.keys import wanted_keys
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import windows

NEAR = st.one_of(
    st.integers(-5, 5).map(lambda number: 2**53 + number),
    st.integers(-5, 5).map(lambda number: -(2**53) + number),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1000, 1000),
)
DECIMALS = st.builds(lambda digits, scale: Decimal(digits).scaleb(-scale), NEAR, st.integers(0, 6))
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), NEAR.map(float), st.integers(-999, 999).map(lambda n: n / 100)
)


def as_int(value) -> int | None:
    """By plain Python; a float of 2^53 or more stands for several whole numbers."""
    if isinstance(value, float) and abs(value) >= 2**53:
        return None
    return int(value) if value == int(value) and -(2**63) <= value < 2**63 else None


def is_float_of(number: Decimal, nearest: float) -> bool:
    """Whether the float, written with as many digits or as Python writes it, is the number."""
    digits = len("".join(map(str, number.as_tuple().digits)).strip("0")) or 1
    return number in (Context(prec=digits).plus(Decimal(nearest)), Decimal(repr(nearest)))


@examples(200)
@given(st.lists(NEAR, max_size=10))
def test_whole_numbers_as_floats_are_those_numbers(numbers):
    made = exact_cast(pl.Series(numbers, dtype=pl.Int64), pl.Float64()).to_list()
    assert made == [float(number) if int(float(number)) == number < 2**63 - 1 else None for number in numbers]
    back = [number for number, one in zip(numbers, made, strict=True) if one is not None]
    assert [int(one) for one in made if one is not None] == back


@examples(200)
@given(st.lists(DECIMALS, max_size=10), st.integers(0, 6))
def test_decimals_of_another_scale_are_those_decimals(numbers, scale):
    given = pl.Series(numbers, dtype=pl.Decimal(38, 6))
    expected = [number if number == round(number, scale) else None for number in numbers]
    assert exact_cast(given, pl.Decimal(38, scale)).to_list() == expected
    texts = pl.Series([str(number) for number in numbers], dtype=pl.String)
    assert exact_cast(texts, pl.Decimal(38, scale)).to_list() == expected
    assert exact_cast(given, pl.Int64()).to_list() == [as_int(number) for number in numbers]


@examples(200)
@given(st.lists(DECIMALS, max_size=10))
def test_decimals_and_texts_as_floats_are_told_from_all_others_of_so_many_digits(numbers):
    for given_as in (
        pl.Series(numbers, dtype=pl.Decimal(38, 6)),
        pl.Series([str(number) for number in numbers], dtype=pl.String),
    ):
        made = exact_cast(given_as, pl.Float64()).to_list()
        for number, one in zip(numbers, made, strict=True):
            assert (one is not None) == is_float_of(number, float(number))
            assert one is None or one == float(number)


@examples(200)
@given(st.lists(FLOATS, max_size=10), st.sampled_from([repr, "{:.17g}".format, "{:.20e}".format, " {!r} ".format]))
def test_a_float_in_any_text_that_tells_it_is_that_float(floats, spelling):
    texts = pl.Series([spelling(one) for one in floats], dtype=pl.String)
    assert exact_cast(texts, pl.Float64()).to_list() == floats


def test_each_power_of_two_is_read_from_the_texts_that_libraries_write():
    """2**-24 is halfway between two numbers of 16 digits, of which Python writes one, and C's `%.15e` the other."""
    powers = [2.0**power for power in range(-1074, 1024)]
    for spelling in (repr, "{:.15e}".format, "{:.16e}".format):
        told = [power for power in powers if float(spelling(power)) == power]
        texts = pl.Series([spelling(power) for power in told])
        assert exact_cast(texts, pl.Float64()).to_list() == told
    narrow = pl.Series(powers).filter(pl.Series(powers) < 2.0**128).cast(pl.Float32)
    assert exact_cast(narrow.cast(pl.String), pl.Float32()).to_list() == narrow.to_list()


@pytest.mark.parametrize("text", ["1e-400", "-1e400", "1e999999999", "1e-999999999"])
def test_a_number_beyond_all_floats_is_none_and_takes_no_time(text):
    assert exact_cast(pl.Series([text]), pl.Float64()).to_list() == [None]


@examples(200)
@given(st.lists(FLOATS, max_size=10), st.integers(0, 6))
def test_floats_as_whole_numbers_and_decimals_are_what_their_shortest_text_says(floats, scale):
    given = pl.Series(floats, dtype=pl.Float64)
    assert exact_cast(given, pl.Int64()).to_list() == [as_int(one) for one in floats]
    shortest = [Decimal(repr(one)) if abs(one) < 2**53 else None for one in floats]
    with localcontext(prec=400):
        expected = [one if one is not None and one == round(one, scale) else None for one in shortest]
    assert exact_cast(given, pl.Decimal(38, scale)).to_list() == expected


def of_struct(number, nested, texts):
    return {"number": number, "nested": {"price": nested}, "all": [{"one": text} for text in texts]}


STRUCTS = st.one_of(
    st.none(),
    st.builds(of_struct, st.none() | NEAR, st.none() | DECIMALS, st.lists(st.none() | NEAR.map(str), max_size=3)),
)
HAVE = pl.Struct(
    {
        "number": pl.Int64,
        "nested": pl.Struct({"price": pl.Decimal(38, 6)}),
        "all": pl.List(pl.Struct({"one": pl.String})),
    }
)
WANTED = pl.Struct(
    {
        "all": pl.List(pl.Struct({"one": pl.Float64})),
        "nested": pl.Struct({"price": pl.Decimal(38, 2)}),
        "number": pl.Float64,
    }
)


@examples(200)
@given(st.lists(STRUCTS, max_size=6))
def test_a_struct_fits_if_all_that_is_in_it_does(structs):
    def fits(one):
        texts = [item["one"] for item in one["all"]]
        numbers = [number for number in (one["number"], *map(int, filter(None, texts))) if number is not None]
        price = one["nested"]["price"]
        return all(float(number) == number for number in numbers) and (price is None or price == round(price, 2))

    frame = pl.DataFrame({"one": structs}, schema={"one": HAVE})
    made = frame.lazy().select(one=fitted(pl.col("one"), HAVE, WANTED)).collect(engine="streaming")["one"].to_list()
    for one, other in zip(structs, made, strict=True):
        if one is None or not fits(one):
            assert other is None
        else:
            assert other["number"] == one["number"]
            assert other["nested"] == one["nested"]
            assert [item["one"] for item in other["all"]] == [item["one"] and int(item["one"]) for item in one["all"]]


def test_times_numbers_and_truth_are_not_taken_for_each_other():
    noon, midnight = datetime(2026, 1, 1, 12, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    assert exact_cast(pl.Series([noon, midnight]), pl.Date()).to_list() == [None, date(2026, 1, 1)]
    assert exact_cast(pl.Series([noon]), pl.Int64()).to_list() == [None]
    assert exact_cast(pl.Series([1767225600]), pl.Datetime("us", "UTC")).to_list() == [None]
    assert exact_cast(pl.Series([True]), pl.Int64()).to_list() == [None]
    assert exact_cast(pl.Series([0, 1, 2]), pl.Boolean()).to_list() == [False, True, None]
    assert exact_cast(pl.Series(["true", "FALSE", "1"]), pl.Boolean()).to_list() == [True, False, None]
    beyond = pl.Series([2**62], dtype=pl.Int64).cast(pl.Datetime("ms"))
    assert exact_cast(beyond, pl.Datetime("us", "UTC")).to_list() == [None]


STATE = pa.schema(
    [
        ("user", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("detail", pa.struct([("total", pa.float64()), ("prices", pa.list_(pa.decimal128(10, 2)))])),
    ]
)
JOB = windows(state=STATE, state_events=pl.lit(0))


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"price": Decimal("1.505")}, "price"),
        ({"price": 1.505}, "price"),
        ({"price": "1e9"}, "price"),
        ({"detail": {"total": 2**53 + 1}}, "detail"),
        ({"detail": {"total": 1, "prices": [Decimal("1.505")]}}, "detail"),
        ({"detail": {"total": 1, "currency": "EUR"}}, "detail"),
        ({"detail": "text"}, "detail"),
    ],
)
def test_rows_that_would_be_rounded_or_lose_a_field_are_refused_with_the_column(row, column):
    source = pl.DataFrame([{"user": "ann", **row}])
    with pytest.raises(InvalidData, match=rf"{column} is no .* in 1 row \(row 1: "):
        check_rows(JOB, source.lazy(), StateMapping())


def test_a_key_that_would_be_rounded_is_no_other_key():
    schema = pa.schema([("price", pa.decimal128(10, 2)), ("ratio", pa.float64())])
    for column, value in (("price", "1.505"), ("price", 1.505), ("ratio", 2**53 + 1), ("ratio", "9007199254740993")):
        with pytest.raises(InvalidData, match=f"key column {column} is .* is not"):
            wanted_keys(({column: value},), ("price", "ratio"), schema)
    assert polars_schema(schema)["price"] == pl.Decimal(10, 2)
    wanted = wanted_keys(({"price": "1.50"},), ("price", "ratio"), schema)
    assert wanted is not None
    rows = pl.DataFrame({"price": ["1.50", "1.51"], "ratio": [0.5, 0.5]}).cast({"price": pl.Decimal(10, 2)})
    assert wanted.of(rows).height == 1
