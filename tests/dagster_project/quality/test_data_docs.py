"""Data Docs in a folder: pages, history, what they cost, and two runs at once."""

import json
import re
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import great_expectations as gx
import pandas as pd
import pytest
from great_expectations.core import ExpectationSuiteValidationResult
from great_expectations.expectations import ExpectColumnMeanToBeBetween, ExpectColumnValuesToBeBetween

from dagster_project.quality.data_docs import DataDocs

FARES = {
    "fare_is_not_negative": ExpectColumnValuesToBeBetween(
        column="fare", min_value=0, description="Meters run forward."
    ),
    "mean_fare": ExpectColumnMeanToBeBetween(column="fare", min_value=1, max_value=10),
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def validation(
    fares: list[Any], suite: str = "rides", expectations: Mapping[str, Any] = FARES
) -> ExpectationSuiteValidationResult:
    context = gx.get_context(mode="ephemeral")
    batch = (
        context.data_sources.add_pandas("pandas")
        .add_dataframe_asset("table")
        .add_batch_definition_whole_dataframe("all")
        .get_batch(batch_parameters={"dataframe": pd.DataFrame({"fare": fares})})
    )
    copies = [one.copy(update={"id": None}) for one in expectations.values()]
    return batch.validate(gx.ExpectationSuite(name=suite, expectations=copies))


@pytest.fixture(scope="module")
def good() -> ExpectationSuiteValidationResult:
    return validation([3.0, 4.0])


@pytest.fixture(scope="module")
def bad() -> ExpectationSuiteValidationResult:
    return validation([3.0, -123.5])


def page_of(docs: DataDocs, address: str) -> Path:
    return (
        Path(address.removeprefix("file://")) if not docs.base_url else docs.folder / address[len(docs.base_url) + 1 :]
    )


def links(page: Path) -> list[Path]:
    found = re.findall(r'<a [^>]*?href="([^"#:]+)"', page.read_text(encoding="utf-8"), re.DOTALL)
    return [(page.parent / link).resolve() for link in found]


def test_a_validation_has_a_page_that_says_what_was_expected_and_found(tmp_path, bad):
    docs = DataDocs(tmp_path)
    page = page_of(docs, docs.add(bad, expectations=FARES, run="first")).read_text(encoding="utf-8")
    assert "fare" in page
    assert "-123.5" in page
    assert "Failed" in page


def test_every_page_leads_to_the_others(tmp_path, good, bad):
    docs = DataDocs(tmp_path)
    pages = [page_of(docs, docs.add(one, expectations=FARES, run="run")) for one in (good, bad)]
    for page in (docs.folder / "index.html", docs.folder / "validations/rides/index.html", *pages):
        assert links(page)
        assert [link for link in links(page) if not link.exists()] == []


def test_the_index_tells_the_last_outcome_of_every_suite(tmp_path, good, bad):
    docs = DataDocs(tmp_path)
    docs.add(good, expectations=FARES, run="1", at=NOON)
    docs.add(bad, expectations=FARES, run="2", at=NOON + timedelta(hours=1))
    docs.add(validation([1.0], "trips"), expectations=FARES, run="2", at=NOON)
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    rides, trips = re.findall(r"<tr>(?!<th>).*?</tr>", index)
    assert "2 failed of 2" in rides
    assert "✓" in rides
    assert "all good of 2" in trips


def test_the_history_keeps_the_last_validations_and_deletes_the_others(tmp_path, good):
    docs = DataDocs(tmp_path, keep=3)
    for hour in range(5):
        docs.add(good, expectations=FARES, run=f"run{hour}", at=NOON + timedelta(hours=hour))
    kept = sorted(path.parent.parent.name for path in tmp_path.rglob("result.html"))
    assert kept == ["run2", "run3", "run4"]
    assert not (tmp_path / "validations/rides/run0").exists()
    history = json.loads((tmp_path / "validations/rides/history.json").read_text())
    assert [entry["run"] for entry in history] == ["run4", "run3", "run2"]


def test_results_are_kept_in_the_format_of_great_expectations(tmp_path, bad):
    docs = DataDocs(tmp_path)
    page = page_of(docs, docs.add(bad, expectations=FARES, run="run"))
    kept = json.loads(page.with_suffix(".json").read_text(encoding="utf-8"))
    assert kept["statistics"]["unsuccessful_expectations"] == 2
    assert len(kept["results"]) == 2


def test_the_page_of_a_suite_is_written_anew_only_when_it_expects_other_things(tmp_path, good):
    docs, page = DataDocs(tmp_path), tmp_path / "expectations/rides.html"
    docs.add(good, expectations=FARES, run="1")
    assert "Expectation Suite" in page.read_text(encoding="utf-8")
    written = page.stat().st_mtime_ns
    docs.add(good, expectations=FARES, run="2")
    assert page.stat().st_mtime_ns == written
    docs.add(good, expectations={"mean_fare": FARES["mean_fare"]}, run="3")
    assert page.stat().st_mtime_ns > written


def test_values_are_text_on_a_page_and_never_markup(tmp_path):
    evil = {"fare": gx.expectations.ExpectColumnValuesToBeInSet(column="fare", value_set=["x"])}
    docs = DataDocs(tmp_path)
    result = validation(["<script>alert(1)</script>", "$unexpected_count", "{{ 7 * 7 }}"], expectations=evil)
    page = page_of(docs, docs.add(result, expectations=evil, run="<b>run</b>")).read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "{{ 7 * 7 }}" in page
    assert "<b>run</b>" not in (tmp_path / "validations/rides/index.html").read_text(encoding="utf-8")


def test_a_page_asks_its_maker_for_no_logo(tmp_path, good):
    docs = DataDocs(tmp_path)
    assert "great-expectations-web-assets" not in page_of(docs, docs.add(good, expectations=FARES, run="1")).read_text(
        encoding="utf-8"
    )


def test_a_suite_by_any_name_stays_in_the_folder(tmp_path):
    docs = DataDocs(tmp_path / "docs")
    docs.add(validation([1.0], "../../a.b/c"), expectations=FARES, run="../..")
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_runs_that_build_at_once_lose_no_page(tmp_path, good):
    docs = DataDocs(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda run: docs.add(good, expectations=FARES, run=f"run{run}"), range(12)))
    history = json.loads((tmp_path / "validations/rides/history.json").read_text())
    assert {entry["run"] for entry in history} == {f"run{run}" for run in range(12)}
    assert [link for link in links(tmp_path / "validations/rides/index.html") if not link.exists()] == []
    assert not [path for path in tmp_path.rglob(".*") if path.name != ".lock"]


def test_a_page_costs_no_more_when_many_are_kept(tmp_path, good):
    docs = DataDocs(tmp_path)
    for run in range(60):
        docs.add(good, expectations=FARES, run=str(run))
    began = time.monotonic()
    docs.add(good, expectations=FARES, run="last")
    # Some 0.1 s on an idle core; GX's site builder takes longer the more there is.
    assert time.monotonic() - began < 2


def test_an_address_is_that_of_the_server_where_there_is_one(tmp_path, good):
    docs = DataDocs(tmp_path, base_url="https://docs.example/gx/")
    assert docs.address() == "https://docs.example/gx/index.html"
    assert docs.add(good, expectations=FARES, run="run 1").startswith(
        "https://docs.example/gx/validations/rides/run_1/"
    )
