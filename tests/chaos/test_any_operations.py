"""Whatever people do to a lakehouse, in whatever order: its tables hold what plain Python makes of the events that are left."""

import json
import shutil
import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from typer.testing import CliRunner

import keyfold
from keyfold import Lakehouse
from keyfold.cli.app import app
from keyfold.dagster.maintenance import maintain_job, maintain_stream
from keyfold.dagster.translator import KeyfoldTranslator
from tests.chaos.any_jobs import CLICKS, COLUMNS, CONSUMERS, JOBS, Click, expected
from tests.examples import ALL

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
USERS = st.sampled_from("abcd")
ALONE = sorted(JOBS.keys() - CONSUMERS.keys())
WHY = ("--why", "as asked", "--who", "us")


@st.composite
def deliveries(draw: Any) -> tuple[int, list[tuple[str, int, int]], list[int], int]:
    """Minutes since the last delivery, its clicks as (user, minutes of lateness, cents), copies of earlier ones, broken lines."""
    late = st.sampled_from([0, 0, 5, 30, 60, 90, 119, 120])
    clicks = draw(st.lists(st.tuples(USERS, late, st.integers(0, 9)), min_size=1, max_size=12))
    passed = draw(st.sampled_from([0, 30, 60, 120, 300]))
    return passed, clicks, draw(st.lists(st.integers(0, 99), max_size=3)), draw(st.integers(0, 1))


class AnyOperations(RuleBasedStateMachine):
    """A lakehouse that people use by the command line, and which clicks its event table should have.

    A command may be refused with a reason, and then has changed nothing; none ends in a traceback.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ending = ExitStack()
        self.root = Path(self._ending.enter_context(tempfile.TemporaryDirectory()))
        patch = self._ending.enter_context(pytest.MonkeyPatch.context())
        project = self.root / "project"
        project.mkdir()
        (project / "pyproject.toml").write_text('[tool.keyfold]\nproject = "tests.chaos.any_jobs:PROJECT"\n')
        patch.setenv("KEYFOLD_PROJECT", str(project))
        patch.setenv("KEYFOLD_RUNNER", "local")
        self.home, self.homes, self.files, self.now = self.root / "home", 0, 0, FIRST
        self.events: dict[int, Click] = {}
        self.landed: dict[int, Click] = {}
        self.contents: dict[str, dict[int, Click]] = {}
        self.erased: set[int] = set()
        self.ids = 0

    @initialize(delivery=deliveries())
    def begin(self, delivery: Any) -> None:
        self.land(delivery)
        self.ingest()
        self.run_all()

    @rule(delivery=deliveries())
    def land(self, delivery: Any) -> None:
        passed, clicks, copies, broken = delivery
        self.now += timedelta(minutes=passed)
        new = {
            self.ids + n: (user, self.now - timedelta(minutes=late), cents)
            for n, (user, late, cents) in enumerate(clicks)
        }
        self.ids += len(new)
        # Of two that differ and are both new, which one is accepted would be a matter of order.
        again = {one: self.landed.get(one, self.events[one]) for one in self._some(copies)}
        lines = [_line(number, click) for number, click in (new | again).items()]
        lines += [_line(-1, ("a", self.now, -1)), "broken"] * broken
        self.contents[self._write("landing/clicks", lines).name] = new | again
        self.landed |= new | again

    @rule()
    def ingest(self, *words: str) -> None:
        assert self._does("ingest", "clicks", "--settle", "0", *words)
        for number, click in self.landed.items():
            if number not in self.erased:
                self.events.setdefault(number, click)
        self.landed = {}

    @rule(number=st.integers(0, 99), user=USERS)
    def append_to_a_file_that_was_read(self, number: int, user: str) -> None:
        self.ingest()
        name = sorted(self.contents)[number % len(self.contents)]
        self.contents[name][self.ids] = (user, self.now, 7)
        with (self.home / "landing/clicks" / name).open("a") as file:
            file.write(f"{_line(self.ids, self.contents[name][self.ids])}\n")
        self.ids += 1
        self.ingest()  # only warns
        self.landed = dict(self.contents[name])
        self.ingest("--reread-changed")

    @rule()
    def run_all(self) -> None:
        for job in JOBS:
            self._does("run", job)

    @rule(job=st.sampled_from(sorted(JOBS)))
    def run(self, job: str) -> None:
        self._does("run", job)

    @rule(job=st.sampled_from(sorted(JOBS)))
    def refresh(self, job: str) -> None:
        self._does("run", job, "--full-refresh", *_with_consumers(job))

    @rule(job=st.sampled_from(ALONE), delivery=st.none() | deliveries())
    def try_and_promote(self, job: str, delivery: Any) -> None:
        if self._does("try", job, "again"):
            if delivery:
                self.land(delivery)
                self.ingest()
            self._does("promote", job, "again", *_with_consumers(job))

    @rule(job=st.sampled_from(ALONE))
    def try_without_promoting(self, job: str) -> None:
        self._does("try", job, "left")

    @rule(job=st.sampled_from(ALONE))
    def promote_what_was_tried(self, job: str) -> None:
        self._does("promote", job, "left", *_with_consumers(job))

    @rule(user=USERS)
    def edit_to_the_same(self, user: str) -> None:
        self._does("state", "edit", "people", "--key", user, "--set", "clicks=clicks + 0", *WHY, "--yes")

    @rule(numbers=st.lists(st.integers(0, 99), max_size=3), user=USERS, earlier=st.sampled_from([0, 7]))
    def correct(self, numbers: list[int], user: str, earlier: int) -> None:
        if right := self._some(numbers):
            new = {one: (user, self.events[one][1] - timedelta(minutes=earlier), 3) for one in right}
            file = self._write("corrections", [_line(number, click) for number, click in new.items()])
            if self._does("correct", "clicks", "--from", file, *WHY, "--yes"):
                self.events |= new

    @rule(user=USERS)
    def erase(self, user: str) -> None:
        if self._does("erase", "clicks", "--where", f"user={user}", *WHY, "--yes"):
            gone = {number for number, click in self.events.items() if click[0] == user}
            self.erased |= gone
            self.events = {number: click for number, click in self.events.items() if number not in gone}

    @rule(numbers=st.lists(st.integers(0, 99), max_size=2))
    def quarantine(self, numbers: list[int]) -> None:
        if (bad := self._some(numbers)) and self._does("quarantine", "clicks", *bad, *WHY, "--yes"):
            for number in bad:
                del self.events[number]

    @rule(job=st.sampled_from(sorted(JOBS)), partitions=st.integers(1, 4))
    def move(self, job: str, partitions: int) -> None:
        self._does("state", "move", job, "--partitions", partitions, "--yes")

    @rule()
    def maintain(self) -> None:
        run = MagicMock()
        run.run.tags = {"keyfold/maintain": "1"}
        maintain_stream(run, Lakehouse(self.home), CLICKS, KeyfoldTranslator())
        for job in JOBS.values():
            self._does("state", "prune", job.name, "--yes")
            maintain_job(run, Lakehouse(self.home), job, KeyfoldTranslator())

    @rule()
    def look(self) -> None:
        assert self._does("check")
        assert self._does("show")
        for job in JOBS:
            for words in (("plan",), ("journal",), ("show",), *(("state", one) for one in ("stats", "read", "list"))):
                self._does(*words, job)
        self._does("state", "diff", "people", "live")
        self._does("drift", "clicks")
        self._does("health")

    # What was erased must not come back with an old backup: one is made just before.
    @precondition(lambda self: self.homes < 2)
    @rule()
    def go_on_from_a_backup(self) -> None:
        assert self._does("backup", self.root / "backups")
        landing = self.home / "landing"
        self.homes += 1
        self.home = self.root / f"home-{self.homes}"
        assert self._does("restore", self.root / "backups")
        shutil.copytree(landing, self.home / "landing", dirs_exist_ok=True)

    def teardown(self) -> None:
        with self._ending:
            self._end()

    def _end(self) -> None:
        """Let all time pass, and compare each table with what plain Python says."""
        self.ingest()
        far = (self.now + timedelta(days=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
        for job in ALONE:
            assert self._does("run", job, "--advance-to", far)
        for job in CONSUMERS:
            assert self._does("run", job) or self._does("run", job, "--full-refresh")
        assert self._does("check")
        lakehouse, wanted = Lakehouse(self.home), expected(self.events)
        for job in JOBS.values():
            keyfold.assert_nothing_lost(lakehouse, job)
        for table, rows in wanted.items():
            found = keyfold.read_table(lakehouse, table).select(COLUMNS[table]).collect().rows()
            assert sorted(found) == sorted(rows), table

    def _some(self, numbers: list[int]) -> list[int]:
        """Some of the clicks, picked by numbers."""
        known = sorted(self.events)
        return sorted({known[number % len(known)] for number in numbers}) if known else []

    def _write(self, folder: str, lines: list[str]) -> Path:
        self.files += 1
        file = self.home / folder / f"{self.files:04}.ndjson"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in lines))
        return file

    def _does(self, *words: object) -> bool:
        """Type a command; whether it was done, and not refused."""
        done = CliRunner().invoke(app, [*map(str, words), "--home", str(self.home)])
        fault = done.exception if not isinstance(done.exception, SystemExit) else None
        assert fault is None, (words, done.output, fault)
        assert done.exit_code in (0, 1), (words, done.output)
        return done.exit_code == 0


def _with_consumers(job: str) -> tuple[str, ...]:
    return ("--with-consumers",) if job in CONSUMERS.values() else ()


def _line(number: int, click: Click) -> str:
    user, at, cents = click
    return json.dumps({"id": number, "user": user, "at": at.isoformat(), "cents": cents})


@pytest.mark.examples
@pytest.mark.timeout(7200 if ALL else 300)
class TestAnyOperations(AnyOperations.TestCase):
    # A step takes some tenths of a second, and an example that fails is small enough to read.
    settings = settings(
        deadline=None,
        max_examples=40 if ALL else 3,
        stateful_step_count=30 if ALL else 10,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )
