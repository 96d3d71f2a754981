"""The first jobs that README.md and the page on writing jobs show give the rows of plain Python, late ones too. Without Spark.

Their code runs as it stands; README.md's also ingests a file, runs the job and prints its table.
"""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import keyfold
from keyfold.testing import play
from tests.examples import examples
from tests.on_a_grid import many_of, on_grid
from tests.shop import NOON

HOME = Path(__file__).parents[2]
NEVER = datetime.min.replace(tzinfo=UTC)
END = NOON + timedelta(days=1)
HOUR, GAP, DELAY = timedelta(hours=1), timedelta(minutes=10), timedelta(minutes=5)


def blocks_of(page, kind="python"):
    return re.findall(rf"```{kind}\n(.*?)```", (HOME / page).read_text(encoding="utf-8"), re.DOTALL)


def names_of(*blocks):
    """Run blocks of a page, and return what they name."""
    names = {}
    exec("".join(blocks), names)  # noqa: S102 - our own page
    return names


(TEN_LINES,) = blocks_of("README.md")
(PRINTED,) = blocks_of("README.md", "text")
DECLARED, _, _ = TEN_LINES.partition("pathlib.Path(")
HOURS = names_of(DECLARED)["per_hour"]
PAGE = names_of(*(one for one in blocks_of("docs/how-to/write-a-job.md") if "keyfold.run(" not in one))


def clocks(runs):
    """Yield each run with the watermarks before and after it; after the last, event time advances to the end."""
    before = NEVER
    for run in runs:
        after = max([before, *(at - DELAY for _, at in run)])
        yield run, before, after
        before = after
    yield [], before, END


def hours(runs):
    """Clicks by user and hour, of all clicks that came before the watermark had reached the end of their hour."""
    counted, late = Counter(), []
    for run, before, _ in clocks(runs):
        for user, at in run:
            hour = at.replace(minute=0, second=0, microsecond=0)
            if hour + HOUR <= before:
                late.append((user, at))
            else:
                counted[user, hour] += 1
    return [(*key, clicks) for key, clicks in counted.items()], late


def sessions(runs):
    """Sessions of each user; all of a session's clicks are late if it had ended before they came."""
    kept, ended, late = [], [], []
    for run, before, after in clocks(runs):
        ordered, kept = sorted(kept + run), []
        starts = [n for n, (one, two) in enumerate(pairwise(ordered), 1) if one[0] != two[0] or two[1] - one[1] > GAP]
        for since, until in pairwise([0, *starts, len(ordered)] if ordered else []):
            clicks = ordered[since:until]
            user, last = clicks[-1]
            if last + GAP <= before:
                late += clicks
            elif last + GAP <= after:
                ended.append((user, clicks[0][1], last, len(clicks)))
            else:
                kept += clicks
    return ended, late


def at(minute):
    return NOON + timedelta(minutes=minute)


CLICKS = st.tuples(st.sampled_from(["ann", "bob"]), on_grid(10_800, 300).map(lambda second: at(second / 60)))
RUNS = st.lists(many_of(CLICKS, 12, least=0), min_size=1, max_size=4)
CUTS = st.lists(on_grid(10_800, 600).map(lambda second: at(second / 60)), max_size=3)
# At a watermark of 12:25, bob's hour is open, though he has no click in it yet.
BEHIND_THE_WATERMARK = [[("ann", at(30))], [("bob", at(20))]]


@pytest.mark.parametrize(
    ("job", "expected", "columns"),
    [
        (HOURS, hours, ["user", "window_start", "clicks"]),
        (PAGE["VISITS"], sessions, ["user", "window_start", pl.col("window_end") - GAP, "clicks"]),
        (PAGE["SESSIONS"], sessions, ["user", "start", "end", "clicks"]),
    ],
    ids=["hours", "visits", "sessions"],
)
@examples(150)
@given(RUNS, CUTS)
@example(BEHIND_THE_WATERMARK, [])
def test_the_first_examples_give_the_rows_of_plain_python_in_any_order_and_split(job, expected, columns, runs, cuts):
    told = play(job, [frame(run) for run in runs], END, cuts=cuts)
    rows, late = expected(runs)
    assert sorted(told.written[job.name].select(columns).rows()) == sorted(rows)
    assert told.written[job.late_table].select(job.events).item() == len(late)
    assert told.state.is_empty()


def frame(run):
    return pl.DataFrame(run, schema={"user": pl.String, "at": pl.Datetime("us", "UTC")}, orient="row")


def test_the_readme_s_lines_run_as_they_stand_and_print_the_rows_of_plain_python(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEYFOLD_RUNNER", "local")
    names = names_of(TEN_LINES)
    lines = (tmp_path / "landing" / "1.csv").read_text(encoding="utf-8").splitlines()[1:]
    run = [(user, datetime.fromisoformat(at)) for user, at in (line.split(",") for line in lines)]
    counted, _ = hours([run])
    watermark = max(at for _, at in run) - DELAY
    over = [(user, hour, clicks) for user, hour, clicks in counted if hour + HOUR <= watermark]
    job, lakehouse = names["per_hour"], names["lakehouse"]
    table = keyfold.read_table(lakehouse, job.name).collect()
    assert table.select("user", "window_start", "clicks").rows() == over
    assert capsys.readouterr().out == f"{table}\n" == PRINTED
    assert keyfold.read_state(lakehouse, job).polars().select("user", "clicks").rows() == [
        (user, clicks) for user, hour, clicks in counted if (user, hour, clicks) not in over
    ]


def test_a_click_behind_the_watermark_is_not_late_while_its_hour_or_its_session_is_open():
    assert hours(BEHIND_THE_WATERMARK) == ([("ann", NOON, 1), ("bob", NOON, 1)], [])
    assert sessions(BEHIND_THE_WATERMARK) == ([("ann", at(30), at(30), 1), ("bob", at(20), at(20), 1)], [])
