"""Result pages below Dagster's own: what is served of a folder, and what a browser lets a page do."""

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from keyfold.dagster.quality.pages import ResultPages
from keyfold.dagster.serving.__main__ import data_docs
from tests.keyfold.dagster.quality.fare_pages import WORDS, add


@pytest.fixture
def served(tmp_path):
    folder = tmp_path / "home" / "data_docs"
    return ResultPages(folder, "http://testserver"), TestClient(Starlette(routes=[Mount("/", data_docs(folder))]))


def test_a_page_is_served_that_loads_and_runs_nothing_and_is_of_no_origin(served):
    pages, client = served
    answer = client.get(add(pages, ["<script>1</script>"], WORDS))
    assert answer.status_code == 200
    assert "&lt;script&gt;1" in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert policy.endswith("; sandbox")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path", ["/", "/suite", "/suite/", "/none.html", "/../secret.html", "/%2e%2e/secret.html", "/link.html"]
)
def test_nothing_else_is_served(served, path):
    pages, client = served
    add(pages, [1.0])
    secret = pages.folder.parent / "secret.html"
    secret.write_text("secret")
    (pages.folder / "link.html").symlink_to(secret)
    assert client.get(path).status_code == 404
