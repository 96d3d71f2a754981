"""A lakehouse, its landing folder and the command line, for commands that are typed as an error names them."""

import json
import re
import shlex
from contextlib import contextmanager

import polars as pl
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from keyfold.cli.app import app
from keyfold.lakehouse.paths import Lakehouse
from keyfold.stream import Stream
from spark_jobs.jobs.registry import JOBS
from spark_jobs.streams import STREAMS
from tests.keyfold.keyed.toy_jobs import totals
from tests.lake import LOCAL, Lake
from tests.shop import CLICK

SESSION = LOCAL


def rows_of(table):
    frame = pl.from_arrow(DeltaTable(str(table)).to_pyarrow_table())
    assert isinstance(frame, pl.DataFrame)
    return frame


class House:
    """A lakehouse, its landing folder, and the command line; a home whose name a shell would take apart."""

    def __init__(self, folder, monkeypatch):
        self.lakehouse = Lakehouse(folder / "my home")
        self.landing = self.lakehouse.landing("clicks")
        self._landed = 0
        self._monkeypatch = monkeypatch

    def land(self, *clicks, folder=None):
        """A file of clicks: (user, minutes after START)."""
        self._landed += 1
        path = (folder or self.landing) / f"{self._landed}.ndjson"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            json.dumps({"user": user, "at": f"2026-01-01T00:{minute:02}:00Z", "clicks": 1}) for user, minute in clicks
        ]
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def keyfold(self, *arguments):
        """Type a command; gives what it said. It must succeed."""
        ended = self.attempt(*arguments)
        assert ended.exit_code == 0, ended.output
        return ended.output

    def refused(self, *arguments):
        """Type a command that must fail with a message for people; gives it, in one line."""
        ended = self.attempt(*arguments)
        assert ended.exit_code == 1, ended.output
        assert "error: " in ended.stderr
        return " ".join(ended.stderr.split())

    def attempt(self, *arguments):
        return CliRunner().invoke(app, [*arguments, "--home", str(self.lakehouse.home)])

    def ingest(self):
        return self.keyfold("ingest", "clicks", "--settle", "0")

    def run(self, *options):
        return self.keyfold("run", "totals", *options)

    def do(self, message):
        """Do what an error says: the commands that it quotes, then the job with the option that it names."""
        commands = [shlex.split(found) for found in re.findall(r"`keyfold ([^`]*)`", message)]
        said = ""
        for command in commands:
            settle = ("--settle", "0") if command[0] == "ingest" else ()
            home = {"KEYFOLD_HOME": str(self.lakehouse.home)}
            ended = CliRunner().invoke(app, [*command, *settle], env=home)
            assert ended.exit_code == 0, ended.output
            said += ended.output
        if "--full-refresh" in re.sub(r"`[^`]*`", "", message):
            said += self.run("--full-refresh")
        assert said, f"no remedy in: {message}"
        return " ".join(said.split())

    def totals(self):
        """What the job's table says: clicks by user."""
        rows = rows_of(self.lakehouse.table("totals")).select("user", "clicks")
        assert not rows["user"].is_duplicated().any()
        return dict(rows.rows())

    def events(self):
        """The users of the event table's rows."""
        return sorted(rows_of(self.lakehouse.events("clicks"))["user"])

    @property
    def live(self):
        return Lake(self.lakehouse).live("totals")


@pytest.fixture
def house(tmp_path, monkeypatch):
    @contextmanager
    def session(*_):
        yield SESSION

    for command in ("ingest", "run"):
        monkeypatch.setattr(f"keyfold.cli.{command}.runners_for", session)
    stream = Stream(name="clicks", schema=CLICK, event_time="at", event_id=("user", "at"))
    monkeypatch.setitem(STREAMS, "clicks", stream)
    monkeypatch.setitem(JOBS, "totals", totals())
    house = House(tmp_path, monkeypatch)
    for click in (("ann", 1), ("bob", 2), ("ann", 3)):
        house.land(click)
        house.ingest()
        house.run()
    assert house.totals() == {"ann": 2, "bob": 1}
    return house
