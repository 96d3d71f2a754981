"""Result pages: what they say, what they load, how many are kept, and two runs at once."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from keyfold.dagster.quality.outcome import Validation
from keyfold.dagster.quality.pages import ResultPages
from keyfold.dagster.quality.validation import validate
from keyfold.suite import Suite, critical

FARES = {
    "fare_is_not_negative": critical.between("fare", "Meters run forward.", min_value=0),
    "mean_fare": critical.mean_between("fare", "Rides are usual.", min_value=1, max_value=10),
}
WORDS = {
    "values": critical.in_set("fare", ["x"], "…"),
    "common": critical("expect_column_most_common_value_to_be_in_set", "…", column="fare", value_set=["x"]),
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MARKUP = [
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    "![x](http://127.0.0.1:9/beacon.png)",
    "[link](http://127.0.0.1:9/)",
    "*not* **bold** `code`",
    "$unexpected_count $$",
    "{{ 7 * 7 }} {% raw %}",
    "&lt;b&gt; as it was",
    "</td></table><h1>out",
    'O\'Brien "quoted" \\ back',
]


class PageText(HTMLParser):
    """What a browser shows of a page, and every element that it makes of it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._parts: list[str] = []
        self.feed(page)
        self.text = "".join(self._parts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self._parts.append(data)


def validation(fares: list[Any], suite: str = "rides", expectations: Suite = FARES) -> Validation:
    return validate(pl.LazyFrame({"fare": fares}), expectations, name=suite)


@pytest.fixture(scope="module")
def good() -> Validation:
    return validation([3.0, 4.0])


@pytest.fixture(scope="module")
def bad() -> Validation:
    return validation([3.0, -123.5])


def page_of(pages: ResultPages, result: Validation, run: str = "run") -> PageText:
    return PageText(Path(pages.add(result, run=run)).read_text(encoding="utf-8"))


def test_a_page_says_what_was_expected_and_what_was_found(tmp_path, bad):
    page = page_of(ResultPages(tmp_path), bad, "first")
    for told in ("Meters run forward.", "-123.5", "expect_column_mean_to_be_between", "-60.25", "Failed", "first"):
        assert told in page.text


def test_a_page_of_what_is_as_expected_says_so(tmp_path, good):
    page = page_of(ResultPages(tmp_path), good)
    assert "Succeeded" in page.text
    assert "Failed" not in page.text


def test_values_are_on_the_page_as_they_are_and_none_is_markup(tmp_path):
    plain = page_of(ResultPages(tmp_path), validation(["a", "b"] * 5, expectations=WORDS))
    page = page_of(ResultPages(tmp_path), validation(MARKUP, expectations=WORDS))
    for value in MARKUP:
        assert value in page.text
    kinds = {tag for tag, _ in plain.tags}
    assert kinds.isdisjoint({"script", "img", "a", "iframe", "object", "link"})
    assert {tag for tag, _ in page.tags} <= kinds
    assert not [value for _, attributes in page.tags for value in attributes.values() if value and "127.0.0.1" in value]


def test_what_an_engine_says_of_an_error_is_text(tmp_path):
    result = validation(["x"], expectations={"lost": critical.not_null("<img src=x>", "…")})
    page = page_of(ResultPages(tmp_path), result)
    assert 'the column "<img src=x>" does not exist' in page.text
    assert "img" not in {tag for tag, _ in page.tags}


def test_a_page_loads_nothing_and_forbids_the_browser_to(tmp_path, bad):
    page = ResultPages(tmp_path).add(bad, run="1")
    text = Path(page).read_text(encoding="utf-8")
    assert re.findall(r"https?://|\bsrc=|\bhref=|@import|url\(|<script", text) == []
    policy = next(attributes["content"] for tag, attributes in PageText(text).tags if "http-equiv" in attributes)
    assert (policy or "").startswith("default-src 'none';")


def test_the_last_pages_of_a_suite_are_kept_and_the_others_deleted(tmp_path, good):
    pages = ResultPages(tmp_path, keep=3)
    pages.add(validation([1.0], "trips"), run="other", at=NOON - timedelta(days=1))
    for hour in (4, 0, 3, 1, 2):
        pages.add(good, run=f"run{hour}", at=NOON + timedelta(hours=hour))
    assert sorted(path.name[-9:-5] for path in (tmp_path / "rides").iterdir()) == ["run2", "run3", "run4"]
    assert len(list((tmp_path / "trips").iterdir())) == 1


def test_a_suite_and_a_run_by_any_name_stay_in_the_folder(tmp_path):
    ResultPages(tmp_path / "pages").add(validation([1.0], "../../a.b/c"), run="../../<x>")
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]
    assert len(list((tmp_path / "pages").glob("*/*.html"))) == 1


def test_runs_that_write_at_once_lose_no_page(tmp_path, good):
    pages = ResultPages(tmp_path)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda run: pages.add(good, run=f"run{run}"), range(12)))
    assert sorted(made) == sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 12


def test_an_address_is_the_server_s_where_there_is_one_and_a_path_to_copy_where_not(tmp_path, good):
    assert Path(ResultPages(tmp_path).add(good, run="1")).is_file()
    served = ResultPages(tmp_path, base_url="https://docs.example/gx/").add(good, run="run 1")
    assert served.startswith("https://docs.example/gx/rides/")
    assert (tmp_path / served.removeprefix("https://docs.example/gx/")).is_file()
