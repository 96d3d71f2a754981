"""A value of a text format is the text that stands there, and its column's type reads it: against plain Python's exact numbers.

The same values are read as CSV and as JSON, quoted or bare, in files whose lines differ in kind, so that each way of reading is taken.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from keyfold.ingestion.parsing import parse_messages
from keyfold.stream import TIMESTAMP, Stream
from tests.examples import examples
from tests.keyfold.ingestion.parsing.reading import as_rows, file_rows

ARRIVED = datetime(2026, 1, 1, tzinfo=UTC)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Wrong(Exception):
    """The value does not fit."""


def number(text: str) -> Fraction:
    if not NUMBER.fullmatch(text.strip()):
        raise Wrong
    return Fraction(Decimal(text.strip()))


def whole(bits: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = number(text)
        if value.denominator != 1 or not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise Wrong
        return int(value)

    return read


def real(text: str) -> float:
    number(text)
    value = float(text)
    if not math.isfinite(value):
        raise Wrong
    return value


def price(text: str) -> Decimal:
    value = number(text)
    if (value * 100).denominator != 1 or abs(value) >= 10**8:
        raise Wrong
    return Decimal(int(value * 100)).scaleb(-2)


def truth(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise Wrong
    return text.strip().lower() == "true"


def day(text: str) -> date:
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", text.strip(), re.ASCII):
        raise Wrong
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise Wrong from None


def moment(text: str) -> datetime:
    # Of ISO 8601, the one form that `SPELT` has.
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text.strip(), re.ASCII):
        raise Wrong
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        raise Wrong from None


KINDS: dict[str, tuple[pa.DataType, Callable[[str], Any]]] = {
    "text": (pa.string(), str),
    "small": (pa.int8(), whole(8)),
    "whole": (pa.int64(), whole(64)),
    "real": (pa.float64(), real),
    "price": (pa.decimal128(10, 2), price),
    "truth": (pa.bool_(), truth),
    "day": (pa.date32(), day),
    "moment": (TIMESTAMP, moment),
}
DIGITS = st.one_of(
    st.integers(-(2**64), 2**64),
    st.integers(-200, 200),
    st.integers(-5, 5).map(lambda step: 2**53 + step),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), 127, 128, -128, -129, 10**10]),
)
BARE = st.one_of(
    DIGITS.map(str),
    st.builds("{}.{}".format, DIGITS, st.sampled_from(["0", "00", "5", "25", "250", "255", "0" * 20 + "1"])),
    st.builds("{}e{}".format, DIGITS, st.sampled_from(["0", "1", "-1", "+2", "-18", "300", "400"])),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["-0", "-0.0", "0.1e1", "1E5", "1" * 40, "1" * 400, "true", "false"]),
)
QUOTED = st.one_of(
    BARE,
    BARE.map(" {} ".format),
    st.dates().map(str),
    st.datetimes().map(lambda time: f"{time.isoformat()[:19]}Z"),
    st.sampled_from(["+1", "5.", ".5", "1_0", "0x1", "01", "1e", "inf", "nan", "-inf", "infinity", "TRUE", "t", "yes"]),
    st.sampled_from(["a", "ü", "1,5", "1 0", "٣", "2026-02-30", "2026-1-1", "--1", "1e1e1", "1.5.2", "\u00a01"]),
)
VALUES = st.one_of(
    st.just(None), BARE.map(lambda text: (text, text)), QUOTED.map(lambda text: (text, json.dumps(text)))
)
"""The text, and how it stands in JSON."""
LINES = st.lists(st.fixed_dictionaries(dict.fromkeys(KINDS, VALUES)), min_size=1, max_size=5)


def expected(row: dict[str, tuple[str, str] | None], names: tuple[str, ...]) -> dict[str, Any] | None:
    try:
        return {name: None if (value := row[name]) is None else KINDS[name][1](value[0]) for name in names}
    except Wrong:
        return None


def shown(row: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if row["reason"] else {name: row[name] for name in names}


@examples(400)
@given(LINES, st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
def test_a_value_is_its_text_in_every_text_format(tmp_path_factory, lines, names):
    names = tuple(names)
    stream = Stream("any", pa.schema([(name, KINDS[name][0]) for name in names]), "ingested_at")
    folder = tmp_path_factory.mktemp("texts")
    objects = [
        "{" + ",".join(f'"{name}":{value[1] if (value := row[name]) else "null"}' for name in names) + "}"
        for row in lines
    ]
    (folder / "a.ndjson").write_text("".join(f"{line}\n" for line in objects), encoding="utf-8")
    wanted = [expected(row, names) for row in lines]
    assert [shown(row, names) for row in file_rows(stream, folder / "a.ndjson", ARRIVED)] == wanted
    messages = parse_messages(stream, [line.encode() for line in objects], np.arange(len(lines)), ARRIVED)
    assert [shown(row, names) for row in sorted(as_rows(stream, messages), key=lambda row: row["line"])] == wanted
    text = io.StringIO()
    # A second column, since a blank line is no row.
    csv.writer(text).writerows(
        [[*names, "other"], *([row[name][0] if row[name] else "" for name in names] + ["x"] for row in lines)]
    )
    (folder / "a.csv").write_text(text.getvalue(), encoding="utf-8")
    assert [shown(row, names) for row in file_rows(stream, folder / "a.csv", ARRIVED)] == wanted


NESTED = Stream(
    "nested",
    pa.schema(
        [
            ("wholes", pa.list_(pa.int64())),
            ("texts", pa.list_(pa.string())),
            ("pair", pa.struct([("text", pa.string()), ("price", pa.decimal128(10, 2))])),
        ]
    ),
    "ingested_at",
)


@examples(200)
@given(
    st.lists(
        st.tuples(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3), VALUES, VALUES), min_size=1, max_size=4
    )
)
def test_so_are_the_values_within_lists_and_objects(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("texts") / "a.ndjson"

    def written(value: tuple[str, str] | None) -> str:
        return value[1] if value else "null"

    wanted, text = [], ""
    for wholes, texts, word, amount in lines:
        pair = f'{{"text":{written(word)},"price":{written(amount)}}}'
        text += (
            f'{{"wholes":[{",".join(map(written, wholes))}],"texts":[{",".join(map(written, texts))}],"pair":{pair}}}\n'
        )
        try:
            wanted.append(
                {
                    "wholes": [one and whole(64)(one[0]) for one in wholes],
                    "texts": [one and one[0] for one in texts],
                    "pair": {"text": word and word[0], "price": amount and price(amount[0])},
                }
            )
        except Wrong:
            wanted.append(None)
    path.write_text(text, encoding="utf-8")
    assert [shown(row, ("wholes", "texts", "pair")) for row in file_rows(NESTED, path, ARRIVED)] == wanted
