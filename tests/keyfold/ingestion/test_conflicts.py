"""An event with the id of another one and other content goes to quarantine with both values; one with the same is a duplicate."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from keyfold.ingestion import batch, conflicts
from keyfold.lakehouse import Lakehouse
from keyfold.runs import ingest
from keyfold.stream import Source, Stream
from tests.landings import EVENTS, check_counts, event, land, local_runners, rows

BEGIN = (
    "an event with this id is there, with other content; if this one is right, "
    "`keyfold correct clicks --from FILE` replaces it: "
)


def refused(lakehouse: Lakehouse) -> list[tuple[str, int, str]]:
    """The name of the file, the line, and what differs."""
    found = [(Path(row[1]).name, row[2], row[3].removeprefix(BEGIN)) for row in rows(lakehouse.quarantine("clicks"))]
    return sorted(found)


def read(lakehouse: Lakehouse, stream: Stream = EVENTS, **more: Any) -> tuple[int, int, int]:
    summary = ingest(lakehouse, stream, **more, runners=local_runners(4))
    check_counts(lakehouse, summary, stream)
    return summary.accepted, summary.quarantined, summary.duplicates


def test_both_values_are_named_whether_the_other_event_is_of_an_earlier_batch_or_of_this_one(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
):
    # Each file is a split.
    monkeypatch.setattr(batch, "_SPLIT_BYTES", 1)
    landing = lakehouse.landing("clicks")
    land(landing / "a.json", [event("u", 1, note="old"), event("u", 2)])
    assert read(lakehouse) == (2, 0, 0)
    land(landing / "b.json", [event("u", 1, note="new"), event("u", 1, note="old"), event("u", 3, note="x")])
    land(landing / "c.json", [event("u", 3, note="x"), event("u", 3, hours=1), event("u", 2, note='"q"')])
    assert read(lakehouse) == (1, 3, 2)
    assert refused(lakehouse) == [
        ("b.json", 1, 'note is "new" and was "old"'),
        (
            "c.json",
            2,
            'at is "2016-06-21T18:00:00.000000Z" and was "2016-06-21T17:00:00.000000Z"; note is NULL and was "x"',
        ),
        ("c.json", 3, 'note is "\\"q\\"" and was NULL'),
    ]


def test_what_is_in_quarantine_can_be_landed_again_under_another_id(lakehouse: Lakehouse):
    stream = replace(EVENTS, sources={"note": Source("said.note"), "at": Source("when")})
    header, row = "user,seq,when,said.note\n", "u,1,2016-06-21T17:00:00Z,"
    for name, text in {"a.csv": f"{header}{row}a\n", "b.csv": f'{header}{row}"b, c"\n'}.items():
        path = Path(str(lakehouse.landing("clicks") / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        read(lakehouse, stream)
    line = {"user": "u", "seq": 1, "when": "2016-06-21T17:00:00Z", "said": {"note": "d"}}
    land(lakehouse.landing("clicks") / "c.json", [line])
    read(lakehouse, stream)
    of_csv, of_json = sorted(rows(lakehouse.quarantine("clicks")), key=lambda one: one[1])
    assert (of_csv[5], of_csv[0]) == ("user,seq,when,said.note", 'u,1,2016-06-21T17:00:00.000000Z,"b, c"')
    assert json.loads(of_json[0]) == {"user": "u", "seq": 1, "when": "2016-06-21T17:00:00.000000Z", "said.note": "d"}
    again = Path(str(lakehouse.landing("clicks") / "d.csv"))
    again.write_text(f"{of_csv[5]}\n{of_csv[0].replace('u,1', 'u,7')}\n")
    land(lakehouse.landing("clicks") / "e.json", [json.loads(of_json[0]) | {"seq": 8}])
    assert read(lakehouse, stream) == (2, 0, 0)
    assert [row[3] for row in rows(lakehouse.events("clicks"))] == ["a", "b, c", "d"]


def test_a_private_value_is_in_no_reason_and_many_conflicts_look_no_values_up(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
):
    stream, landing = replace(EVENTS, private=("note",)), lakehouse.landing("clicks")
    land(landing / "a.json", [event("u", seq, note="old") for seq in range(3)])
    read(lakehouse, stream)
    land(landing / "b.json", [event("u", 0, note="new")])
    read(lakehouse, stream)
    monkeypatch.setattr(conflicts, "_LOOKED_UP", 1)
    land(landing / "c.json", [event("u", seq, note="new") for seq in (1, 2)])
    read(lakehouse, stream)
    assert [what for _, _, what in refused(lakehouse)] == ["note differs", *["their digests differ"] * 2]


def test_where_an_event_came_from_is_no_content_nor_is_a_new_column_without_a_value(lakehouse: Lakehouse):
    schema = pa.schema([field for field in EVENTS.schema if field.name != "note"]).append(pa.field("file", pa.string()))
    stream, landing = replace(EVENTS, schema=schema, sources={"file": Source(path=True)}), lakehouse.landing("clicks")
    land(landing / "a.json", [event("u", 1)])
    assert read(lakehouse, stream) == (1, 0, 0)
    land(landing / "b.json", [event("u", 1)])
    assert read(lakehouse, stream) == (0, 0, 1)
    stream = replace(stream, schema=schema.append(pa.field("more", pa.string())))
    land(landing / "c.json", [event("u", 1), event("u", 1) | {"more": "m"}])
    assert read(lakehouse, stream) == (0, 1, 1)
    assert refused(lakehouse) == [("c.json", 2, 'more is "m" and was NULL')]


def test_events_dated_by_their_arrival_are_compared_without_it(lakehouse: Lakehouse):
    schema = EVENTS.schema.set(2, EVENTS.schema.field("at").with_nullable(True))
    stream, landing = replace(EVENTS, schema=schema, missing_time="arrival"), lakehouse.landing("clicks")
    for name, note in (("a", "x"), ("b", "x"), ("c", "y")):
        land(landing / f"{name}.json", [{"user": "u", "seq": 1, "note": note}])
        read(lakehouse, stream)
    assert len(rows(lakehouse.events("clicks"))) == 1
    assert refused(lakehouse) == [("c.json", 1, 'note is "y" and was "x"')]


def test_a_changed_file_that_is_read_again_tells_which_rows_have_changed(lakehouse: Lakehouse):
    path = land(lakehouse.landing("clicks") / "a.json", [event("u", 1), event("u", 2)])
    read(lakehouse)
    land(path, [event("u", 1), event("u", 2, note="new"), event("u", 3)])
    assert read(lakehouse, reread_changed=True) == (1, 1, 1)
    assert refused(lakehouse) == [("a.json", 2, 'note is "new" and was NULL')]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.decimal128(10, 2), ["2.20", "2.21"]),
        (pa.date32(), ['"2026-01-31"', '"2026-02-01"']),
        (pa.float64(), ["2.20", "2.21"]),
        (pa.bool_(), ["true", "false"]),
        (pa.list_(pa.int64()), ["[1]", "[1, null]"]),
        (pa.list_(pa.decimal128(10, 2)), ["[2.20]", "[2.21]"]),
        (pa.struct([("on", pa.date32())]), ['{"on": "2026-01-31"}', '{"on": "2026-02-01"}']),
    ],
    ids=str,
)
def test_a_value_of_any_type_that_differs_is_another_content(
    lakehouse: Lakehouse, kind: pa.DataType, values: list[str]
):
    stream = replace(EVENTS, schema=[*EVENTS.schema, pa.field("value", kind)])
    lines = [f'{{"user":"u","seq":1,"at":"2016-06-21T17:00:00Z","value":{value}}}' for value in (*values, values[0])]
    landing = lakehouse.landing("clicks")
    landing.mkdir(parents=True)
    (landing / "a.json").write_text("\n".join(lines))
    assert read(lakehouse, stream) == (1, 1, 1)
    ((_, line, what),) = refused(lakehouse)
    assert line == 2
    assert what.startswith("value is ")
