"""A person is erased from a job, and from all that was made of it by other jobs, which go on as if the person had never been."""

import json
from datetime import timedelta

import polars as pl
import pyarrow as pa
import pytest

from keyfold import Input, KeyedJob, Step
from keyfold.journal.audit import Author, digest
from keyfold.keyed.conservation import assert_nothing_lost
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.keyed.job.inputs import STEP_DECIDES
from keyfold.keyed.job.state import State
from keyfold.keyed.job.tables import Append
from keyfold.lakehouse.file_changes import erased_rows
from keyfold.runs.event_changes import erase
from keyfold.stream import TIMESTAMP
from tests.chained_jobs import CLICKS_OF_HOUR, DAILY, HOURLY, Chain
from tests.folders import files_that_hold
from tests.keyfold.state.local_state import frames_of_state
from tests.lake import Lake
from tests.shop import CLICKS, NOON

EVA = ({"user": ["evangeline"]}, Author("dpo@example.org", "request 17"))
WHO = pa.field("who", pa.string(), nullable=False)
AT, COUNT = CLICKS_OF_HOUR.field("hour"), pa.field("clicks", pa.int64())


def summed(name, source, key, events, **renamed):
    """Clicks of each key as its state, given out at the end of all time."""
    columns = [events.field(one) for one in key]
    kept = pa.schema([*columns, COUNT])

    def step(state, events, clock):
        new = pl.concat([state.drop("deadline"), events.select(*key, "clicks")])
        known = new.group_by(key).agg(pl.col("clicks").sum()).with_columns(deadline=END)
        over = pl.col("deadline") <= clock.watermark
        return Step(state=known.filter(~over), output=known.filter(over).drop("deadline"))

    rows = Input(source.derive(**renamed), "hour", columns=events, delay="1d", final_at=STEP_DECIDES, conserved=False)
    state = State(kept.append(pa.field("deadline", TIMESTAMP)), events=pl.lit(0))
    return KeyedJob(name, rows, key, state, step, Append(kept, events=pl.lit(0)), key_groups=2)


END = NOON + timedelta(days=40)
# Of what the days of users come to, by another name of the user; and of hours, whoever clicked.
PEOPLE = summed("people", DAILY.table(), ("who",), pa.schema([WHO, AT, COUNT]), who=pl.col("user"))
HOURS = summed("hours", HOURLY.table(), ("hour",), pa.schema([AT, COUNT]))
CHAIN = (HOURLY, DAILY, PEOPLE, HOURS)
CAME = [
    [("ann", 0), ("evangeline", 1), ("evangeline", 70), ("ann", 200)],
    [("evangeline", 2), ("evangeline", 60 * 30), ("ann", 60 * 31), ("evangeline", 60 * 60)],
]
LATER = [("ann", 60 * 62), ("bob", 60 * 63)]


def begin(folder, *who):
    """A site where the chain has run twice on the clicks of some people."""
    site = Chain(folder)
    for clicks in CAME:
        site.click(*(one for one in clicks if one[0] in who))
        for job in CHAIN:
            site.run(job)
    site.lakehouse.landing("clicks").remove_tree()
    return site


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return begin(tmp_path_factory.mktemp("begun") / "home", "ann", "bob", "evangeline")


@pytest.fixture(scope="module")
def without_eva(tmp_path_factory):
    """The tables at the end of a chain that evangeline never was in."""
    return played_on(begin(tmp_path_factory.mktemp("without") / "home", "ann", "bob"))


@pytest.fixture
def site(begun, tmp_path, without_spark):
    """A copy of the chain that has begun."""
    return begun.copied(tmp_path / "home", without_spark)


def played_on(site):
    """All tables, once more clicks have come and all time has passed."""
    site.click(*LATER)
    for _ in range(2):
        for job in CHAIN:
            site.run(job, Incremental(END + timedelta(days=9)) if job is HOURLY else None)
    tables = {one.name: site.lakehouse.table(one.name) for job in CHAIN for one in job.tables}
    return {name: sorted(pl.read_delta(str(table)).rows()) for name, table in tables.items()}


def holding(site):
    """Whatever holds evangeline, state decoded."""
    found = [str(path) for path in files_that_hold(site.lakehouse, "evangeline")]
    for job in CHAIN:
        live = Lake(site.lakehouse).live(job.name)
        for batch in live.journal.kept():
            found += [job.name for frame in frames_of_state(live, batch) if "evangeline" in str(frame.rows())]
    return found


def erased(site, *, yes=True):
    return erase(site.lakehouse, CLICKS, CHAIN[::-1], *EVA, yes=yes, runners=site.spark)


def balanced(site):
    return [assert_nothing_lost(site.lakehouse, job) for job in CHAIN]


def test_a_person_is_erased_all_down_the_chain_which_goes_on_as_if_there_had_been_none(site, without_eva):
    planned = erased(site, yes=False)
    assert (planned.rows, planned.jobs[0], set(planned.jobs)) == (
        {"events.clicks": 5},
        "hourly",
        {job.name for job in CHAIN},
    )
    assert holding(site)
    done = erased(site)
    assert done.rows == planned.rows
    assert holding(site) == []
    assert {run.job: run.generation for run in done.runs} == dict.fromkeys(planned.jobs, "generation-0002")
    assert [one.events_read > 0 for one in balanced(site)] == [True, False, False, False]
    assert played_on(site) == without_eva
    assert erased_rows(site.lakehouse.events("clicks")) == 5
    audited = pl.read_delta(str(site.lakehouse.monitoring("edits"))).row(0, named=True)
    assert (audited["who"], audited["why"], audited["what"]) == (EVA[1].who, EVA[1].why, "erased")
    assert json.loads(audited["keys"]) == {"user": digest('["evangeline"]')}
    assert json.loads(audited["rows"])["events.clicks"] == 5
    assert erased(site).rows == {}


@pytest.mark.parametrize(
    ("point", "count"),
    [
        ("rewrite: files written", 1),
        ("rewrite: decided", 1),
        ("rewrite: events changed", 1),
        ("rewrite: applied", 1),
        # How new generations go live together is tried in `test_chains`.
        ("done: after", 3),
        ("generation: live", 1),
    ],
)
def test_an_erasure_down_the_chain_that_was_cut_off_is_finished_by_the_same_call(
    site, without_eva, cut_power, point, count
):
    assert cut_power(point, lambda: erased(site), count)
    erased(site)
    assert holding(site) == []
    assert balanced(site)
    assert played_on(site) == without_eva


def test_a_consumer_that_is_behind_reads_what_is_left(site, without_eva):
    site.click(*LATER)
    site.run(HOURLY)
    erased(site)
    assert holding(site) == []
    assert balanced(site)
