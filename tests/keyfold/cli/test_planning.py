"""What `keyfold plan` prints of changed jobs, and the commands that it names next."""

import json
from types import SimpleNamespace

import pytest

from keyfold import Input
from keyfold.cli import planning, state_tools
from keyfold.operators import count, max, min, windows
from tests.lake import Lake
from tests.shop import CLICKS

NAMES = ("hours", "steady", "new")


def hours(name="hours", **changed):
    of = {"n": count(), "most": max("clicks")}
    return windows(name, Input(CLICKS), **{"of": of, "key": "user", "length": "1h", **changed})


@pytest.fixture
def project(keyfold, lakehouse, monkeypatch):
    """A project of three jobs, two of which have run; and what it declares from then on."""
    jobs = {name: hours(name) for name in NAMES}
    for module in (planning, state_tools):
        monkeypatch.setattr(module, "project_jobs", lambda: jobs)
    lake = Lake(lakehouse)
    lake.click(("ann", 1), ("bob", 90))
    for name in NAMES[:2]:
        lake.run(jobs[name])
    return SimpleNamespace(jobs=jobs, keyfold=keyfold, lake=lake)


def planned(project, *arguments):
    ended = project.keyfold("plan", *arguments, "--json")
    assert ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_jobs_that_declare_something_else_are_listed_with_what_that_needs(project):
    assert planned(project, "--changed") == {"changed": [], "new": ["new"], "unchanged": ["hours", "steady"]}
    project.jobs["hours"] = hours(of={"n": count(), "most": min("clicks")})
    listed = planned(project, "--changed")
    ((changed,), new) = listed["changed"], listed["new"]
    assert (changed["job"], changed["verdict"], new, listed["unchanged"]) == ("hours", "refresh", ["new"], ["steady"])
    (change,) = changed["changes"]
    assert (change["setting"], change["before"], change["after"]) == ("aggregates: most", "max(clicks)", "min(clicks)")
    assert changed["next"] == planned(project, "hours")["next"]
    text = project.keyfold("plan", "--changed").stdout
    assert "aggregates: most: max(clicks) → min(clicks) (a refresh: " in text
    assert "new: new" in text


def test_a_plan_without_a_change_says_so_and_each_names_what_to_do_next(project):
    assert "changes: none\n" in project.keyfold("plan", "hours").stdout
    assert planned(project, "hours")["next"] == project.lake.lakehouse.command("run", "hours")
    project.jobs["hours"] = hours(of={"n": count(), "most": max("clicks"), "least": min("clicks")})
    plan = planned(project, "hours")
    assert plan["verdict"] == "move"
    moved, _, again = plan["next"].partition("; ")
    assert moved == project.lake.lakehouse.command("state", "move", "hours")
    assert again.startswith("keyfold reprocess hours --since TIME ")
    assert project.keyfold("plan", "new").exit_code == 0


@pytest.mark.parametrize("arguments", [(), ("hours", "--changed"), ("--changed", "--partitions", "3")])
def test_a_plan_is_of_one_job_or_of_all(project, arguments):
    refused = project.keyfold("plan", *arguments)
    assert refused.exit_code == 2
    assert "give a job, or --changed" in refused.stderr


def test_a_job_whose_generation_is_lost_is_among_the_changed_with_the_reason(project):
    (project.lake.live("hours").folder / "generation.json").unlink()
    (changed,) = planned(project, "--changed")["changed"]
    assert changed["job"] == "hours"
    assert "which is gone" in changed["error"]
