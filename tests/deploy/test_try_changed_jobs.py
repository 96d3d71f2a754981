"""The workflow for pull requests: its scripts are run here, up to the text that they post."""

import json
import re
from pathlib import Path

import pytest
import yaml

from keyfold import Lakehouse
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job_run import run_job
from spark_jobs.jobs.registry import JOBS
from tests.commands import ended_well
from tests.keyfold.state.job_histories import EVENTS, put
from tests.lake import LOCAL
from tests.project_copy import copy_project, environment_of

WORKFLOW = Path(__file__).parents[2] / "deploy" / "github" / "try-changed-jobs.yml"
COMMENTS = "repos/shop/lake/issues/12/comments"
GITHUB = """#!/bin/bash
# GitHub's command line, as far as the workflow needs it: comments are files.
set -eu
body() { for word in "$@"; do case $word in body=@*) cat "${word#body=@}";; esac; done; }
case "$*" in
    *"--method PATCH"*) for word in "$@"; do case $word in */comments/*) file=${word##*/};; esac; done; body "$@" > "posted/$file";;
    *"--method POST"*) number=$(( $(ls posted | wc -l) + 1 )); body "$@" > "posted/$number"; echo "${*}" >> posts.txt;;
    *)  for word in "$@"; do case $word in .*startswith*) filter=$word;; esac; done
        for file in posted/*; do [ -e "$file" ] && jq -n --rawfile body "$file" --arg id "${file#posted/}" '{id: $id, body: $body}'; done \\
            | jq -s . | jq -r "$filter";;
esac
"""


@pytest.fixture(scope="module")
def steps():
    """The scripts of the workflow by name, of a share in which small data have rows."""
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    scripts = {step["name"]: step["run"] for step in job["steps"] if "name" in step}
    assert "--share 0.01 " in scripts["Try"]
    return {name: script.replace("--share 0.01 ", "--share 0.6 ") for name, script in scripts.items()}


@pytest.fixture
def checkout(tmp_path):
    """A checkout of the project beside a copy of production's lakehouse, and what runs a script there as GitHub does."""
    copy = Lakehouse(tmp_path / "copy")
    for name, stream in (("model_totals", "sales"), ("purchase_totals", "payments")):
        put(copy, stream, EVENTS[stream](1).head(400))
        run_job(copy, build_job(JOBS[name]), runners=LOCAL)
    (tmp_path / "project").mkdir()
    project = copy_project(tmp_path / "project")
    (project / "bin").mkdir()
    (project / "bin" / "gh").write_text(GITHUB)
    (project / "bin" / "gh").chmod(0o755)
    (project / "posted").mkdir()
    environment = environment_of(project, KEYFOLD_COPY=str(copy.home), KEYFOLD_RUNNER="local", COMMENTS=COMMENTS)
    environment["PATH"] = f"{project}/bin:{environment['PATH']}"

    def run(script):
        return ended_well("bash", "-e", "-o", "pipefail", "-c", script, folder=project, environment=environment)

    return project, run


def test_a_pull_request_gets_a_comment_for_each_changed_job_and_the_next_push_changes_it(checkout, steps):
    project, run = checkout
    before = sorted((path, path.stat().st_mtime_ns) for path in (project.parent / "copy").rglob("*"))
    job = project / "spark_jobs" / "jobs" / "model_totals.py"
    job.write_text(job.read_text().replace('sum("quantity")', 'sum(pl.col("quantity") * 2)'))
    run(steps["Try"])
    changed = json.loads((project / "changed.json").read_text())
    assert [plan["job"] for plan in changed["changed"]] == ["model_totals"]
    assert "purchase_totals" in changed["unchanged"]
    assert "ride_summaries" in changed["new"]
    run(steps["Post"])
    text = (project / "posted" / "1").read_text()
    assert text.startswith("<!-- keyfold try model_totals -->\n## keyfold try `model_totals`: 60 % of the keys, ")
    assert "- `aggregates: quantity: sum(quantity) → sum(quantity * 2) (a refresh: " in text
    assert re.search(r"\n\| `model_totals` \| 0 \| [1-9]\d* \| 0 \| `quantity` [1-9]\d*", text)
    assert "**`model_totals`: changed**" in text

    job.write_text(job.read_text().replace("* 2", "* 3"))
    for name in ("Try", "Post"):
        run(steps[name])
    assert [path.name for path in (project / "posted").iterdir()] == ["1"]
    assert "sum(quantity * 3)" in (project / "posted" / "1").read_text()
    # The copy was read, and nothing else.
    assert before == sorted((path, path.stat().st_mtime_ns) for path in (project.parent / "copy").rglob("*"))


def test_without_a_changed_job_nothing_is_posted_and_a_trial_that_fails_says_so(checkout, steps):
    project, run = checkout
    for name in ("Try", "Post"):
        run(steps[name])
    assert [*(project / "posted").iterdir()] == []
    job = project / "spark_jobs" / "jobs" / "model_totals.py"
    job.write_text(
        job.read_text().replace('sum("quantity")', 'sum(pl.col("quantity").cast(pl.Int64).replace_strict({}))')
    )
    for name in ("Try", "Post"):
        run(steps[name])
    text = (project / "posted" / "1").read_text()
    assert "## keyfold try model_totals: failed\n\n    error: " in text
