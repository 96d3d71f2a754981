"""After an erasure no file below the home holds the key, in whatever encoding; and whatever is of others is there."""

import csv
import io
import json
import shutil
import unicodedata
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from keyfold.ingestion import ingest_totals, rebuild
from keyfold.journal.audit import Author
from keyfold.keyed.generation.generation_record import read_record
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job_run import run_job
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.file_changes import erased_rows
from keyfold.maintenance.checking import check
from keyfold.maintenance.compaction import compact
from keyfold.privacy import MASK
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.runs.event_changes import erase
from keyfold.state.changing.editing import Edit, edit_state
from keyfold.stream import Stream
from spark_jobs.streams import STREAMS
from tests.examples import examples
from tests.keyfold.keyed.toy_jobs import windows
from tests.keyfold.state.local_state import frames_of_state
from tests.shop import CLICK, START

CLICKS = Stream("clicks", CLICK, "at", future_bound=timedelta(days=4000))
BY = Author("dpo@example.org", "request")
SESSION: Any = Runners("local")
# Each begins with Q, which no digest, identifier or name of the project's has beside such characters.
KEYS = st.text("zü\"\\,é日\n'%&", min_size=3, max_size=6).map(lambda text: f"Q{text}Q")


@pytest.fixture
def spark(without_spark):
    return SESSION


def encodings(key):
    """The ways in which a text stands in a file."""
    plain = {key, unicodedata.normalize("NFC", key), unicodedata.normalize("NFD", key)}
    plain |= {one.replace('"', '""') for one in plain}
    escaped = {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in plain for ascii in (True, False)}
    twice = {json.dumps(one, ensure_ascii=ascii)[1:-1] for one in escaped for ascii in (True, False)}
    return plain | escaped | twice | {quote(one, safe="") for one in plain} | {quote(one) for one in plain}


def contents(home):
    """What each file says, decoded where it has a form."""
    for path in home.rglob("*"):
        if not path.is_file():
            continue
        yield path, str(path.relative_to(home))
        if path.suffix == ".parquet":
            frame = pl.read_parquet(path)
            # Cell by cell: the pieces of a broken line of CSV may be in cells that follow one another.
            yield path, "\0".join(str(value) for column in frame for value in column.to_list())
        else:
            yield path, path.read_bytes().decode("utf-8", "replace")
    for pointer in home.glob("jobs/*/generation-*/generation.json"):
        folder = pointer.parent
        generation = Generation(folder, read_record(pointer))
        for batch in generation.journal.kept():
            for frame in frames_of_state(generation, batch):
                yield folder, str(frame.rows())


def files_that_hold(home, key, others):
    """Files in which the key stands, and not only as a part of another key."""
    found = set()
    longer = sorted(
        (one for other in others if key in other and other != key for one in encodings(other)), key=len, reverse=True
    )
    for path, text in contents(home):
        rest = reduce(lambda left, one: left.replace(one, ""), longer, text)
        if any(one in rest for one in encodings(key)):
            found.add(path)
    return found


def line_of(user, clicks, minute, form):
    row = {"user": user, "at": (START + timedelta(minutes=minute)).isoformat(), "clicks": clicks}
    if form.startswith("json"):
        return json.dumps(row, ensure_ascii=form == "json escaped") + "\n"
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(row.values())
    return text.getvalue()


def land(folder, key, users, minute):
    folder.mkdir(parents=True, exist_ok=True)
    name = quote(key, safe=" \"\\,'&")
    for form in ("json", "json escaped", "csv"):
        lines = [line_of(user, clicks, minute, form) for user in users for clicks in (1, "many")]
        header = "user,at,clicks\n" if form == "csv" else ""
        broken = line_of(key, 1, minute, form)[:-4] + "\n"
        path = folder / f"{form} {name} {minute}.{form.partition(' ')[0]}"
        path.write_text(header + "".join(lines) + broken, newline="")
    (folder / f"{name}.none").write_text("nothing")


@given(key=KEYS, is_private=st.booleans())
@examples(4, [HealthCheck.function_scoped_fixture, HealthCheck.too_slow], shrinks=False)
def test_no_file_holds_what_was_erased(spark, tmp_path_factory, key, is_private):
    lakehouse = Lakehouse(tmp_path_factory.mktemp("home"))
    stream = replace(CLICKS, private=("user",) if is_private else ())
    users = [key, key + "1", "x" + key, key + "Q", key[:-1]]
    landing = lakehouse.landing("clicks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(STREAMS, "clicks", stream)
        land(landing, key, users, 1)
        ingest(lakehouse, stream, landing, settle=timedelta(0), runners=spark)
        rebuild(lakehouse, stream, settle=timedelta(0), runners=spark)
        job = windows(stream=stream)
        run_job(lakehouse, job, runners=spark)
        land(landing, key, users, 30)
        ingest(lakehouse, stream, landing, settle=timedelta(0), runners=spark)
        run_job(lakehouse, job, runners=spark)
        edit_state(lakehouse, job, Edit((key,), {"clicks": "clicks"}, BY), yes=True, runners=spark)
        edited = pl.read_delta(str(lakehouse.monitoring("edits")))["keys"][0]
        assert json.loads(edited) == [{"user": MASK if is_private else key}]
        for table in (lakehouse.quarantine("clicks"), lakehouse.monitoring("edits")):
            compact(table)
        erasure = ({"user": [key]}, BY)
        assert check(lakehouse) == []
        counted = erase(lakehouse, stream, [job], *erasure, runners=spark)
        assert any("aside/clicks-" in one for one in counted.not_searched)
        shutil.rmtree(str(lakehouse.home / "aside"))
        erased = erase(lakehouse, stream, [job], *erasure, yes=True, runners=spark)
        assert erased.rows == counted.rows
        assert check(lakehouse) == []
        before = ingest_totals(lakehouse, "clicks")
        assert ingest(lakehouse, stream, landing, settle=timedelta(0), runners=spark).files == 0
        (landing / "new.json").write_text(line_of("new", 1, 40, "json"))
        ingest(lakehouse, stream, landing, settle=timedelta(0), runners=spark)
        assert run_job(lakehouse, job, runners=spark).counts.events == 1
        assert check(lakehouse) == []
        shutil.rmtree(str(landing))
        held = files_that_hold(lakehouse.home, key, users)
    quarantine = lakehouse.quarantine("clicks")
    assert held == set()
    events = pl.read_delta(str(lakehouse.events("clicks")))
    assert sorted(events["user"].to_list()) == sorted(["new", *users[1:] * 6])
    lines = pl.read_delta(str(quarantine))
    assert lines.filter(pl.col("reason").str.contains("many")).height == 6 * 4
    assert DeltaTable(str(quarantine)).count() + erased_rows(quarantine) == before.quarantined
