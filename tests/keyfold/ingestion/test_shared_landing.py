"""Streams that share a landing: each row belongs to one of them, or to quarantine. Plain Python is the oracle."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.errors import IncompatibleState, Misconfigured
from keyfold.ingestion import ingest, ingest_totals, is_unfinished, split_reader
from keyfold.lakehouse import Lakehouse, fail_points
from keyfold.runs.erasing import Erasure, erase
from keyfold.state.changing.audit import Author
from keyfold.stream import Source, Stream
from keyfold.stream.sharing import check_sharing, sharing
from tests.examples import examples
from tests.keyfold.ingestion.test_batch import BrokenRuns, broken_runs, changed, crash_at, no_spark
from tests.keyfold.ingestion.test_run import EVENTS, START, Crash, check_counts, rows

SPARK: Any = no_spark(2)
CLICKS = replace(EVENTS, where={"kind": ("click", "both")})
ORDERS = replace(
    EVENTS,
    name="orders",
    # What is a number in a click is a text in an order.
    schema=EVENTS.schema.set(1, pa.field("seq", pa.string())),
    sources={"note": Source("order.note")},
    landing="clicks",
    where=pl.col("kind").is_in(["order", "both"]) | pl.col("order.note").is_not_null(),
)
SHARING = (CLICKS, ORDERS)

KINDS = ("click", "order", "both", "strange", None)
LINE = st.one_of(
    st.tuples(st.sampled_from(KINDS), st.sampled_from([1, 2]), st.sampled_from([0, 1, 30, 60]), st.booleans()),
    st.none(),
)
"""Kind, number, hours, and whether it has the note of an order; None is a line that is no event."""


def shown(line: tuple[Any, ...] | None) -> str:
    """The line as it lands."""
    if line is None:
        return "rubbish"
    kind, seq, hours, has_note = line
    note = {"order": {"note": "n"}} if has_note else {}
    at = (START + timedelta(hours=hours)).isoformat()
    return json.dumps(
        {"kind": kind, "user": "u", "seq": str(seq) if belongs(line) == {"orders"} else seq, "at": at} | note
    )


def belongs(line: tuple[Any, ...] | None) -> set[str]:
    """The streams whose conditions hold."""
    if line is None:
        return set()
    kind, _, _, has_note = line
    clicks, orders = kind in ("click", "both"), kind in ("order", "both") or has_note
    return {name for name, holds in (("clicks", clicks), ("orders", orders)) if holds}


def standing(lines: list[Any], name: str) -> list[tuple[Any, ...]]:
    """The events of a stream that stand, told one after the other."""
    found: list[tuple[Any, ...]] = []
    for line in (line for line in lines if belongs(line) == {name}):
        if not any(line[1] == other[0] and abs(line[2] - other[1]) <= 24 for other in found):
            found.append((line[1], line[2]))
    return sorted(found)


def stored(lakehouse: Lakehouse, name: str) -> list[tuple[Any, ...]]:
    return sorted((int(row[1]), int((row[2] - START) / timedelta(hours=1))) for row in rows(lakehouse.events(name)))


def reasons(lakehouse: Lakehouse, name: str) -> list[str]:
    return sorted(row[3] for row in rows(lakehouse.quarantine(name)))


def land(lakehouse: Lakehouse, name: str, lines: list[Any]) -> Path:
    path = Path(str(lakehouse.landing("clicks"))) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{shown(line)}\n" for line in lines))
    return path


def read(lakehouse: Lakehouse, streams: tuple[Stream, ...] = SHARING, **more: Any) -> None:
    summary = ingest(lakehouse, streams[0], sharing=streams, **more, runners=SPARK)
    for stream, one in zip(streams, (summary, *summary.shared), strict=True):
        check_counts(lakehouse, one, stream)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are parsed from now on."""
    parsed, real = list[str](), split_reader._read

    def noting(split: Any, place: int, file: Any) -> Any:
        parsed.append(file.path)
        return real(split, place, file)

    monkeypatch.setattr(split_reader, "_read", noting)
    return parsed


@examples(60)
@given(broken_runs(LINE))
def test_any_split_and_any_crash_gives_each_row_to_one_stream(broken: BrokenRuns):
    with TemporaryDirectory() as folder:
        lakehouse, files = Lakehouse(Path(folder) / "home"), broken.files
        broken.play(lakehouse, CLICKS, partial(land, lakehouse), sharing=SHARING)
        read(lakehouse)
        lines = [line for lines in files for line in lines]
        for stream in SHARING:
            assert stored(lakehouse, stream.name) == standing(lines, stream.name)
            assert ingest_totals(lakehouse, stream).files == len(files)
        unclaimed = [len([why for why in reasons(lakehouse, one.name) if "with this id" not in why]) for one in SHARING]
        assert unclaimed == [sum(len(belongs(line)) != 1 for line in lines), 0]
        assert sum(ingest_totals(lakehouse, one).rows_read for one in SHARING) == len(lines)


MIXED = [("click", 1, 0, False), ("order", 1, 0, True), ("both", 2, 0, False), ("strange", 3, 0, False), None]


def test_a_row_of_none_or_of_several_goes_to_the_landing_s_own_quarantine_with_what_held(lakehouse: Lakehouse):
    land(lakehouse, "a.json", MIXED)
    read(lakehouse)
    assert reasons(lakehouse, "clicks") == [
        "it belongs to no stream: no condition holds of those of clicks, orders",
        "it belongs to several streams: the conditions of clicks and orders hold",
        "not valid JSON: Expecting value: line 1 column 1 (char 0)",
    ]


def as_ndjson(frame: pl.DataFrame, path: Path) -> None:
    frame.write_ndjson(path)


def as_csv(frame: pl.DataFrame, path: Path) -> None:
    text = StringIO()
    frame.write_csv(text)
    path.write_text(text.getvalue())


def as_parquet(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path)


@pytest.mark.parametrize(("ending", "write"), [("ndjson", as_ndjson), ("csv", as_csv), ("parquet", as_parquet)])
def test_a_mixed_file_of_any_format_gives_what_files_of_one_kind_each_would(
    lakehouse: Lakehouse, tmp_path: Path, ending: str, write: Callable[[pl.DataFrame, Path], None]
):
    kinds = ["click", "order", "bill"] * 40
    frame = pl.DataFrame(
        {
            "kind": kinds,
            "user": [f"u{number % 7}" for number in range(120)],
            "seq": [str(number) if number % 11 else "seven" for number in range(120)],
            "at": ["2016-06-21T17:00:00Z" if number % 13 else "yesterday" for number in range(120)],
            "level": [number % 2 for number in range(120)],
        }
    )
    clicks = replace(EVENTS, where={"kind": "click"}, schema=EVENTS.schema.set(1, pa.field("seq", pa.string())))
    orders = replace(clicks, name="orders", landing="clicks", where={"kind": "order", "level": "0"}, event_id=())
    others = replace(orders, name="others", where=(pl.col("kind") == "order") & (pl.col("level") == "1"))
    streams = (clicks, orders, others)
    landing = Path(str(lakehouse.landing("clicks")))
    landing.mkdir(parents=True)
    write(frame, landing / f"mixed.{ending}")
    read(lakehouse, streams)
    alone = Lakehouse(tmp_path / "alone")
    for stream in streams:
        own = Path(str(alone.landing(stream.name)))
        own.mkdir(parents=True)
        assert stream.condition is not None
        write(
            frame.filter(frame.with_columns(pl.col("level").cast(pl.String)).select(stream.condition).to_series()),
            own / f"own.{ending}",
        )
        ingest(alone, replace(stream, where=None, landing=""), runners=SPARK)
        assert rows(lakehouse.events(stream.name)) == rows(alone.events(stream.name))
        theirs = reasons(alone, stream.name)
        unclaimed = ["it belongs to no stream: no condition holds of those of clicks, orders, others"] * 40
        assert reasons(lakehouse, stream.name) == (sorted([*theirs, *unclaimed]) if stream is clicks else theirs)


def test_a_stream_that_joins_reads_what_the_others_have_read(lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch):
    land(lakehouse, "a.json", MIXED)
    alone = replace(CLICKS, where=None)
    ingest(lakehouse, alone, runners=SPARK)
    before = ingest_totals(lakehouse, CLICKS)
    land(lakehouse, "b.json", [("order", 5, 0, True), ("click", 6, 0, False)])
    parsed = counting(monkeypatch)
    read(lakehouse)
    # Each stream reads what is new to it.
    assert parsed == ["b.json", "a.json", "b.json"]
    assert stored(lakehouse, "orders") == [(1, 0), (5, 0)]
    assert ingest_totals(lakehouse, CLICKS).rows_read == before.rows_read + 1


def test_conditions_that_change_while_a_killed_run_waits_are_refused(lakehouse: Lakehouse):
    land(lakehouse, "a.json", MIXED)
    # The first stream's record is written, and the second one's is not.
    with changed(fail_points, act=crash_at("done: after", 1)), pytest.raises(Crash):
        read(lakehouse)
    assert [is_unfinished(lakehouse, one.name) for one in SHARING] == [True, True]
    with pytest.raises(IncompatibleState, match="ingest of orders was interrupted, and the conditions"):
        read(lakehouse, (replace(CLICKS, where={"kind": ("click", "strange")}), ORDERS))
    read(lakehouse)
    read(lakehouse, (replace(CLICKS, where={"kind": ("click", "strange")}), ORDERS))
    assert stored(lakehouse, "orders") == [(1, 0)]


def test_a_value_that_is_no_text_is_compared_as_its_json_text(lakehouse: Lakehouse):
    two = (replace(CLICKS, where={"v": "2"}), replace(ORDERS, where={"v": ("true", '{"a":1}')}))
    path = land(lakehouse, "a.json", [])
    at = '"at": "2016-06-21T17:00:00Z", "user": "u"'
    path.write_text(
        f'{{"v": 2, "seq": 1, {at}}}\n{{"v": "2", "seq": 2, {at}}}\n{{"v": true, "seq": "3", {at}}}\n'
        f'{{"v": {{"a":1}}, "seq": "4", {at}}}\n{{"v": 2.0, "seq": 5, {at}}}\n{{"v": null, {at}}}\n{{"\\u0076": "\\u0032", "seq": 6, {at}}}\n'
    )
    read(lakehouse, two)
    assert [row[0] for row in stored(lakehouse, "clicks")] == [1, 2, 6]
    assert [row[0] for row in stored(lakehouse, "orders")] == [3, 4]
    assert len(reasons(lakehouse, "clicks")) == 2


@pytest.mark.parametrize(
    ("streams", "message"),
    [
        ((CLICKS,), "where is for streams that share a landing"),
        ((CLICKS, replace(ORDERS, where=None)), "orders shares the landing of clicks and has no condition"),
        ((CLICKS, replace(ORDERS, where={"kind": "both"})), "clicks and orders share a landing, and both conditions"),
        ((CLICKS, replace(ORDERS, where={"kind": "click", "v": "1"})), "both conditions"),
        ((ORDERS, CLICKS), "the first must have one of its own"),
        ((CLICKS, replace(ORDERS, done_marker=True)), "differ in done_marker"),
    ],
)
def test_streams_that_cannot_share_a_landing_are_refused(streams: tuple[Stream, ...], message: str):
    with pytest.raises(Misconfigured, match=message):
        check_sharing(streams)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"where": {}}, "names no raw column"),
        ({"where": {"kind": 1}}, "kind must have a text"),
        ({"where": {"items[].kind": "a"}}, "leads into each element"),
        ({"where": pl.col("v") > 2}, "does not fit columns of text"),
        ({"where": pl.col("v").str.len_chars()}, "gives UInt32"),
        ({"landing": "orders"}, "names the stream itself"),
    ],
)
def test_what_is_no_condition_is_refused_when_the_stream_is_declared(changes: dict[str, Any], message: str):
    with pytest.raises(Misconfigured, match=message):
        replace(ORDERS, **changes)


def test_the_streams_of_a_landing_are_found_by_any_of_them():
    streams = {one.name: one for one in (ORDERS, CLICKS, replace(EVENTS, name="alone"))}
    assert sharing(streams, "clicks") == sharing(streams, "orders") == SHARING
    assert [one.name for one in sharing(streams, "alone")] == ["alone"]
    with pytest.raises(Misconfigured, match="landing names clicks, and no stream has this name"):
        sharing({"orders": ORDERS}, "orders")


def test_erasing_a_person_reaches_the_rows_that_belong_to_no_stream_and_the_names_of_files_of_all(lakehouse: Lakehouse):
    kinds = replace(CLICKS, where={"kind": "click"}), replace(ORDERS, where={"kind": "order"})
    path = land(lakehouse, "of eva.json", [])
    lines = [
        {"kind": kind, "user": user, "seq": "1", "at": START.isoformat()}
        for kind in ("order", "ordr")
        for user in ("eva", "bob")
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    read(lakehouse, kinds)
    erasure = Erasure({"user": ["eva"]}, Author("ann", "asked for"))
    erased = erase(lakehouse, kinds[1], [], erasure, sharing=kinds, runners=SPARK)
    assert erased.rows == {"events.orders": 1, "quarantine.clicks": 1, "names of landing files": 2}
    assert ([row[0] for row in rows(lakehouse.events("orders"))], len(reasons(lakehouse, "clicks"))) == (["bob"], 1)
    assert ingest(lakehouse, kinds[0], sharing=kinds, runners=SPARK).rows_read == 0
