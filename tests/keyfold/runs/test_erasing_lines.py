"""Quarantined lines are found by their decoded fields, and by words where the column's place has nothing or cannot be decoded."""

import csv
import io
import json
import re
from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.ingestion.erased_names import erased_name, holds_any
from keyfold.ingestion.parsing import parse_file, parse_messages
from keyfold.runs.quarantine_search import ABSENT, FOUND, UNKNOWN, search_lines
from keyfold.stream import TIMESTAMP, Source, Stream
from tests.examples import examples
from tests.schemas import schema_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAYMENTS = Stream(
    name="payments",
    schema=schema_of("card int64, city string, tags strings, time time, site string"),
    event_time="time",
    sources={"city": Source(("city", "town")), "site": Source(path=True)},
    missing=("-",),
)
WORDS = ["zürich", "zürich 2", "z", 'say "hi"', "a,b", "a\nb", "back\\slash", "日本", "11", "2211", "k11"]
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "card": st.sampled_from([11, 2211, 1]),
            "city": st.sampled_from([*WORDS, "-"]),
            "town": st.sampled_from(WORDS),
            "payment": st.sampled_from(WORDS),
        }
    ),
    min_size=1,
    max_size=6,
)


def quarantined(path, *, stream=PAYMENTS):
    rows = [
        (reject.raw, str(path), chunk.header or None, reject.line)
        for chunk in parse_file(stream, path, NOW, path.parent)
        for reject in chunk.rejects
    ]
    return pl.DataFrame(rows, ["raw", "file", "header", "line"], orient="row", infer_schema_length=None)


def search(frame, stream=PAYMENTS, **texts):
    return frame.select(search_lines(stream, {name: [text] for name, text in texts.items()}, [])).to_series().to_list()


def written(tmp_path, rows, form, escaped):
    """A file none of whose rows has a time that is one."""
    path = tmp_path / f"payments.{form}"
    broken = [{**row, "time": "soon"} for row in rows]
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(
            text, list(broken[0]), quoting=csv.QUOTE_ALL if escaped else csv.QUOTE_MINIMAL, lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows(broken)
        path.write_text(text.getvalue(), newline="")
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in broken))
    else:
        pl.DataFrame(broken).write_parquet(path)
    return path


def expected(row, value, *places):
    """Found in its places, counted where another place has it as a word, else absent."""
    if value in [str(row[place]) for place in places]:
        return FOUND
    return UNKNOWN if any(is_word(value, str(text)) for text in row.values()) else ABSENT


def is_word(value, text):
    return bool(re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text))


@given(rows=ROWS, form=st.sampled_from(["csv", "jsonl", "parquet"]), escaped=st.booleans(), word=st.sampled_from(WORDS))
@examples(80, [HealthCheck.function_scoped_fixture])
def test_lines_are_found_by_their_fields_in_every_form(tmp_path, rows, form, escaped, word):
    frame = quarantined(written(tmp_path, rows, form, escaped)).sort("line")
    assert frame.height == len(rows)
    assert search(frame, city=word) == [expected(row, word, "city", "town") for row in rows]
    assert search(frame, card="11") == [expected(row, "11", "card") for row in rows]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "card,time\nx11,soon\n11,soon,11\n 11 ,soon\n12,soon,3\n", [ABSENT, FOUND, FOUND, UNKNOWN]),
        # Under another name, in a key, where the column is NULL, and where it has another value.
        (
            "a.jsonl",
            '{"crd": 11}\n{"cards": {"11": "soon"}}\n{"card": null, "note": "of 11"}\n{"card": 12, "note": "of 11"}\n{"crd": 12}\n',
            [FOUND, FOUND, FOUND, UNKNOWN, ABSENT],
        ),
        ("a.csv", "Card,time\n11,soon\n12,soon\n", [FOUND, ABSENT]),
        ("a.csv", "card,time\n,11\n,2026-11-01\n13,11\n", [UNKNOWN, ABSENT, UNKNOWN]),
        (
            "a.jsonl",
            '{"card": "11"}\n{"card": 11.0}\n{"card": [11]}\n{"card": 11\n[11]\n{"card": 2211\n{"card": \n',
            [FOUND] * 5 + [UNKNOWN] * 2,
        ),
        ("a.jsonl", '{"card": 33, "card": 11}\n{"card": 33, "payment": "k11"}\n', [FOUND, ABSENT]),
    ],
)
def test_the_text_of_what_cannot_be_decoded_is_searched_and_the_rest_of_it_counted(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    assert search(quarantined(tmp_path / name), card="11") == expected


@pytest.mark.parametrize("cut", ['{"city": "z\\u00fcrich", "time"', '{"city": "z\u0075\u0308rich"', '"zürich'])
def test_a_text_that_cannot_be_decoded_is_found_however_it_is_escaped(cut):
    frame = pl.DataFrame({"raw": [cut], "file": ["a.json"], "header": [None]})
    assert [search(frame, city=city) for city in ("zürich", "rich")] == [[FOUND], [UNKNOWN]]


def test_a_line_that_is_surely_not_one_in_a_column_is_absent_whatever_the_others_say():
    frame = pl.DataFrame(
        {"raw": ['{"card": 12}'], "file": [None], "header": [None]}, schema_overrides={"file": pl.String}
    )
    both = {"site": "bonn", "card": "11"}
    assert search(frame, PAYMENTS, **both) == search(frame, PAYMENTS, **dict(reversed(both.items()))) == [ABSENT]
    assert search(frame, PAYMENTS, **both | {"card": "12"}) == [UNKNOWN]


def test_a_path_is_found_by_what_it_says(tmp_path):
    path = tmp_path / "ulm.jsonl"
    path.write_text('{"tags": ["a", 1]}\n{"tags": "a"}\n')
    frame = quarantined(path)
    whole_file = pl.concat(
        [frame, pl.DataFrame({"raw": [None], "file": ["ulm.jsonl"], "header": [None], "line": [None]})],
        how="vertical_relaxed",
    )
    assert search(whole_file, site="ulm") == [FOUND] * 3


def test_what_is_beside_a_message_cannot_be_searched_and_its_value_can():
    stream = Stream(
        "keyed",
        pa.schema([("card", pa.int64()), ("time", TIMESTAMP)]),
        "time",
        sources={"card": Source(("kafka_key", "card"))},
    )
    found = parse_messages(stream, [b'{"card": 11}'], pl.Series([0]).to_numpy(), NOW)
    frame = pl.DataFrame({"raw": [found.rejects[0].raw], "file": ["kafka://t/0"], "header": [None], "line": [0]})
    assert [search(frame, stream, card=card) for card in ("11", "12")] == [[FOUND], [UNKNOWN]]


SENT = Stream(
    name="sent",
    schema=pa.schema([("person", pa.string()), ("friend", pa.string()), ("time", TIMESTAMP)]),
    event_time="time",
    sources={"person": Source(("user.name", "name")), "friend": Source("friends[].name")},
)


@given(
    people=st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=4),
    friends=st.lists(st.sampled_from(["a", "b", None]), max_size=3),
    form=st.sampled_from(["jsonl", "parquet"]),
)
@examples(60, [HealthCheck.function_scoped_fixture])
def test_lines_are_found_by_values_within_objects_and_elements_by_their_own_alone(tmp_path, people, friends, form):
    path = tmp_path / f"sent.{form}"
    rows = [{"user": {"name": one}, "friends": [{"name": friend} for friend in friends]} for one in people]
    if form == "parquet":
        friend = pl.List(pl.Struct({"name": pl.String}))
        pl.DataFrame(rows, {"user": pl.Struct({"name": pl.String}), "friends": friend}).write_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = quarantined(path, stream=SENT)
    found = [search(frame, SENT, **texts) for texts in ({"person": "a"}, {"friend": "a"})]
    # A row that became no event for one of its elements is quarantined for each, with all of them or its own.
    assert [result == FOUND for result in found[0]] == [one == "a" for one in people for _ in friends]
    assert all(result == FOUND for result, friend in zip(found[1], friends * len(people), strict=True) if friend == "a")
    assert "a" in friends or FOUND not in found[1]


def test_a_line_of_several_elements_is_found_by_any_and_where_a_field_has_another_form_by_what_it_holds(tmp_path):
    path = tmp_path / "sent.jsonl"
    lines = [
        '{"name": {}, "friends": [{"name": "b"}, {"name": "a"}]}',
        '{"name": "a", "friends": {"name": "a"}}',
        '{"name": "a", "friends": null}',
        '{"user": "a", "friends": [{"name": "b"}]}',
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    frame = quarantined(path, stream=SENT).sort("line")
    assert search(frame, SENT, friend="a") == [FOUND, FOUND, UNKNOWN, UNKNOWN]
    assert search(frame, SENT, person="a") == [UNKNOWN, FOUND, FOUND, FOUND]


def test_a_name_holds_a_value_as_a_word_of_its_own_and_gives_none_of_it_away():
    holds = holds_any(["zürich", "11", "a.b"])
    assert all(map(holds, ["zürich.csv", "z%C3%BCrich/1.csv", "zu\u0308rich_2.csv", "card-11.csv", "a.b"]))
    assert not any(map(holds, ["zürichsee.csv", "2211.csv", "k11.csv", "2026-11-01.csv", "axb"]))
    assert erased_name("eva.smith.csv.gz").endswith(".csv.gz")
    assert "smith" not in erased_name("eva.smith.csv.gz") + erased_name("eva.smith")
