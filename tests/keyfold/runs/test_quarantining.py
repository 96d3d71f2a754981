"""An event on which a job fails in each run is taken out, and all goes on as if it had gone to quarantine when it came."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import chain

import polars as pl
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.errors import KeyfoldError, StepFailed
from keyfold.ingestion import ingest_totals
from keyfold.journal.audit import Author
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job_run import RunOptions
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.file_changes import erased_rows
from keyfold.runners import Runners
from keyfold.runs import ingest
from keyfold.runs.event_changes import erase, quarantine
from keyfold.stream import Source
from spark_jobs.streams import STREAMS
from tests.keyfold.keyed.toy_jobs import windows, windows_step
from tests.keyfold.runs.ruled_clicks import CLICKS, events
from tests.lake import Lake
from tests.shop import START

BY = Author("ann@example.org", "a click that no job takes")
POISON = ("bob", 22, 666)
ID = json.dumps({"user": "bob", "at": "2026-01-01 00:22:00+00:00"})


def failing_step(state, events, clock):
    if (events["clicks"] == POISON[2]).any():
        raise ValueError("there are no 666 clicks")
    return windows_step(state, events, clock)


JOB = windows(stream=CLICKS, step=failing_step)
READER = windows(stream=CLICKS, name="other")
FIRST, POISONED, LATER = [("ann", 1, 1), ("bob", 2, 2)], [("ann", 12, 3), POISON, ("cat", 25, 4)], [("ann", 50, 5)]


def counts(lake):
    """The rows of both tables by the counts of ingest, with those that were moved since, and as they are."""
    totals = ingest_totals(lake.lakehouse, CLICKS)
    tables = lake.lakehouse.events("clicks"), lake.lakehouse.quarantine("clicks")
    there = [DeltaTable(str(table)).count() for table in tables]
    counted = [rows + erased_rows(table) for rows, table in zip(there, tables, strict=True)]
    assert counted == [totals.accepted, totals.quarantined]
    return there


def stuck(folder, options=None):
    """A job that fails on an event, with a batch that is planned, and events that came later."""
    lake = Lake(folder)
    lake.land(CLICKS, events(*FIRST))
    lake.run(JOB)
    for rows in POISONED[:1], POISONED[1:]:
        lake.land(CLICKS, events(*rows))
    for _ in range(2):
        with pytest.raises(StepFailed, match="no 666 clicks") as failed:
            lake.run(JOB, **({} if options is None else {"options": options}))
        # The error says how to go on.
        (named,) = re.findall(r"keyfold quarantine clicks '(.*?)'", str(failed.value))
        assert json.loads(named) == {"user": "bob", "at": "2026-01-01 00:22:00+00:00"}
    assert lake.live("windows").journal.pending()
    lake.land(CLICKS, events(*LATER))
    return lake


@pytest.fixture(scope="module")
def stuck_before(tmp_path_factory):
    return stuck(tmp_path_factory.mktemp("stuck") / "home")


@pytest.fixture
def lake(stuck_before, tmp_path):
    """A copy of a lakehouse whose job is stuck."""
    shutil.copytree(str(stuck_before.lakehouse.home), tmp_path / "home")
    lake = Lake(tmp_path / "home")
    lake.landed = stuck_before.landed
    return lake


def take_out(lake, jobs, event=ID, *, yes=True):
    return quarantine(lake.lakehouse, CLICKS, jobs, [event], BY, yes=yes, runners=lake.session)


def ended(lake, job=JOB):
    """The rows of a job's table once all time has passed."""
    lake.run(job, Incremental(START + timedelta(days=1)))
    return lake.rows(job.name)


def told(*rows):
    """The same in plain Python."""
    sums = Counter()
    for user, minute, clicks in rows:
        sums[user, START + timedelta(minutes=minute // 10 * 10)] += clicks
    return sorted((*window, clicks) for window, clicks in sums.items())


LEFT = [row for row in chain(FIRST, POISONED, LATER) if row != POISON]


def test_a_job_that_has_not_read_the_event_goes_on_past_its_planned_batch(lake):
    generation = lake.live("windows").name
    shown = take_out(lake, [JOB], yes=False)
    assert (shown.before["clicks"]["clicks"].to_list(), shown.jobs, counts(lake)) == ([666], (), [6, 0])
    assert lake.live("windows").journal.pending()
    assert take_out(lake, [JOB]).jobs == ()
    assert counts(lake) == [5, 1]
    assert (ended(lake), lake.live("windows").name) == (told(*LEFT), generation)
    (reject,) = pl.read_delta(str(lake.lakehouse.quarantine("clicks"))).rows(named=True)
    assert json.loads(reject["raw"]) == {"user": "bob", "at": "2026-01-01T00:22:00.000000Z", "clicks": 666}
    assert reject["reason"] == "taken out of events.clicks by ann@example.org: a click that no job takes"
    assert [reject[name] for name in ("file", "line", "batch")] == [None] * 3
    (audited,) = pl.read_delta(str(lake.lakehouse.monitoring("edits"))).rows(named=True)
    assert (audited["what"], audited["of"], json.loads(audited["keys"])[0]["user"]) == ("quarantined", "clicks", "bob")


def test_what_was_taken_out_is_erased_with_its_person_or_told_where_its_file_would_say_whose_it_is(lake):
    take_out(lake, [JOB])
    erasure = ({"user": ["bob"]}, BY)
    erased = erase(lake.lakehouse, CLICKS, [], *erasure)
    places = ("keys in monitoring.edits", "quarantine.clicks", "events.clicks")
    assert erased.rows == dict.fromkeys(places, 1)
    told = "1 line of quarantine.clicks, which cannot be parsed, have a value in another place"
    assert told not in str(erased.not_searched)
    of_paths = replace(CLICKS, sources={"user": Source(path=True), "clicks": Source("user")})
    assert told in str(erase(lake.lakehouse, of_paths, [], *erasure).not_searched)


def test_a_job_that_has_read_the_event_is_computed_again_and_no_other(lake):
    lake.run(READER)
    assert take_out(lake, [JOB, READER]).jobs == ("other",)
    assert ended(lake) == ended(lake, READER) == told(*LEFT)


def test_a_run_that_is_cut_off_among_its_batches_is_computed_again(tmp_path):
    lake = stuck(tmp_path, options=RunOptions(1))
    pending = lake.live("windows").journal.pending()
    assert pending[0].batch > pending[0].run
    assert take_out(lake, [JOB]).jobs == ("windows",)
    assert ended(lake) == told(*LEFT)


@pytest.mark.parametrize(
    "point",
    [
        "rewrite: plans withdrawn",
        "rewrite: files written",
        "rewrite: decided",
        "rewrite: events changed",
        "rewrite: applied",
        "generation: live",
    ],
)
def test_the_same_call_completes_one_that_was_cut_off(lake, cut_power, point):
    lake.run(READER)
    assert cut_power(point, lambda: take_out(lake, [JOB, READER]))
    assert take_out(lake, [JOB, READER]).jobs == (() if point == "generation: live" else ("other",))
    with pytest.raises(KeyfoldError, match=r"no event in events.clicks has the id"):
        take_out(lake, [JOB, READER])
    assert counts(lake) == [5, 1]
    assert ended(lake) == ended(lake, READER) == told(*LEFT)


def test_the_event_can_land_again_once_it_is_right_and_be_taken_out_again(lake):
    take_out(lake, [JOB])
    right = ("bob", 22, 6)
    lake.land(CLICKS, events(right, LATER[0]))
    assert counts(lake) == [6, 1]
    assert ended(lake) == told(*LEFT, right)
    assert take_out(lake, [JOB]).jobs == ("windows",)
    assert counts(lake) == [5, 2]
    assert ended(lake) == told(*LEFT)


@pytest.mark.parametrize(
    ("stream", "event", "why"),
    [
        (CLICKS, '{"user": "dan", "at": "2026-01-01T00:22:00Z"}', "no event in events.clicks has the id .*dan"),
        (CLICKS, '{"user": "bob"}', "an id of clicks has the columns user, at: give at"),
        (CLICKS, "bob", "give it as a JSON object"),
        (windows().only_input.stream, "bob", "stream clicks has no event_id"),
    ],
)
def test_what_names_no_event_is_refused(lake, stream, event, why):
    with pytest.raises(KeyfoldError, match=why):
        quarantine(lake.lakehouse, stream, [JOB], [event], BY, yes=True, runners=lake.session)
    assert counts(lake) == [6, 0]
    assert lake.live("windows").journal.pending()


def test_the_command_shows_the_event_and_moves_it_only_if_told(tmp_path):
    lakehouse = Lakehouse(tmp_path / "home")
    paid = {"card": "11", "time": "2026-01-05T09:30:00Z", "city": "Oslo", "amount": 40.0, "merchant": None}
    lakehouse.landing("payments").mkdir(parents=True)
    lines = [json.dumps(paid | {"payment_id": one}) + "\n" for one in ("k1", "k2", "k3")]
    (lakehouse.landing("payments") / "one.jsonl").write_text("".join(lines))
    ingest(lakehouse, STREAMS["payments"], runners=Runners("local"))
    command = [
        "quarantine",
        "payments",
        "k1",
        '{"payment_id": "k3"}',
        "--why",
        "no card",
        "--home",
        str(lakehouse.home),
    ]
    for more, said, left in (
        ([], "applied: no\nnext: nothing was changed: give --yes to do it\n", ["k1", "k2", "k3"]),
        (["--yes"], "applied: yes\n", ["k2"]),
    ):
        found = CliRunner().invoke(app, [*command, *more])
        assert (found.exit_code, found.stdout[-len(said) :]) == (0, said)
        assert '"11"' not in found.stdout
        assert pl.read_delta(str(lakehouse.events("payments")))["payment_id"].sort().to_list() == left
    again = CliRunner().invoke(app, [*command, "--yes"])
    assert again.exit_code == 1
