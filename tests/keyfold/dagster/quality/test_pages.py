"""Result pages: what they say, what they load, how many are kept, and two runs at once."""

import re
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from keyfold.dagster.quality import pages
from keyfold.dagster.quality.pages import ResultPages
from keyfold.suite import Suite, critical
from tests.keyfold.dagster.quality.fare_pages import FARES, WORDS, add

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


def page_of(folder: ResultPages, fares: list[Any], expectations: Suite = FARES, run: str = "run") -> PageText:
    return PageText(Path(add(folder, fares, expectations, run=run)).read_text(encoding="utf-8"))


def test_a_page_says_what_was_expected_and_what_was_found(tmp_path):
    page = page_of(ResultPages(tmp_path), [3.0, -123.5], run="first")
    for told in ("Meters run forward.", "-123.5", "expect_column_mean_to_be_between", "-60.25", "Failed", "first"):
        assert told in page.text
    page = page_of(ResultPages(tmp_path), [3.0, 4.0])
    assert "Succeeded" in page.text
    assert "Failed" not in page.text


def test_values_and_errors_are_on_the_page_as_they_are_and_none_is_markup(tmp_path):
    plain = page_of(ResultPages(tmp_path), ["a", "b"] * 5, WORDS)
    lost = {"lost": critical.not_null("<img src=x>", "…")}
    page = page_of(ResultPages(tmp_path), MARKUP, WORDS | lost)
    for value in (*MARKUP, 'the column "<img src=x>" does not exist'):
        assert value in page.text
    kinds = {tag for tag, _ in plain.tags}
    assert kinds.isdisjoint({"script", "img", "a", "iframe", "object", "link"})
    assert {tag for tag, _ in page.tags} <= kinds
    assert not [value for _, attributes in page.tags for value in attributes.values() if value and "127.0.0.1" in value]


def test_a_page_loads_nothing_and_forbids_the_browser_to(tmp_path):
    text = Path(add(ResultPages(tmp_path), [-1.0])).read_text(encoding="utf-8")
    assert re.findall(r"https?://|\bsrc=|\bhref=|@import|url\(|<script", text) == []
    policy = next(attributes["content"] for tag, attributes in PageText(text).tags if "http-equiv" in attributes)
    assert (policy or "").startswith("default-src 'none';")


def test_the_last_pages_of_a_suite_are_kept_and_the_others_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "KEPT", 3)
    add(ResultPages(tmp_path), [1.0], suite="trips")
    for run in range(5):
        add(ResultPages(tmp_path), [1.0], run=f"run{run}")
    assert sorted(path.name[-9:-5] for path in (tmp_path / "rides").iterdir()) == ["run2", "run3", "run4"]
    assert len(list((tmp_path / "trips").iterdir())) == 1


def test_a_suite_and_a_run_by_any_name_stay_in_the_folder_and_are_their_user_s_alone(tmp_path):
    add(ResultPages(tmp_path / "pages"), [1.0], suite="../../a.b/c", run="../../<x>")
    assert [path.name for path in tmp_path.iterdir()] == ["pages"]
    (page,) = (tmp_path / "pages").glob("*/*.html")
    assert [path.stat().st_mode & 0o077 for path in (page, *page.parents[:2])] == [0, 0, 0]


def test_runs_that_write_at_once_lose_no_page(tmp_path):
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda run: add(ResultPages(tmp_path), [1.0], run=f"run{run}"), range(12)))
    assert sorted(made) == sorted(str(path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 12


def test_an_address_is_the_server_s_where_there_is_one_and_a_path_to_copy_where_not(tmp_path):
    assert Path(add(ResultPages(tmp_path), [1.0])).is_file()
    served = add(ResultPages(tmp_path, base_url="https://docs.example/gx/"), [1.0], run="run 1")
    assert served.startswith("https://docs.example/gx/rides/")
    assert (tmp_path / served.removeprefix("https://docs.example/gx/")).is_file()
