"""The result page of a validation, by Great Expectations' own renderers: what Dagster does not show of it.

Imports nothing of this project, and no Dagster. History, outcomes and the list of checks are Dagster's; here is the one
page that has, side by side, what was expected and what was found:

    FOLDER/<suite>/<time>-<run>.html

- **A page stands alone.** GX's templates load styles and scripts from five other hosts; ours (`_TEMPLATES`) load nothing,
  and the page forbids the browser to (`CONTENT_SECURITY_POLICY`).
- **Rows are text.** What comes of the data cannot become markup, whichever template it goes through.
- Every file is put in its place whole, under a name of its own: runs may write at once, without a lock.

`serve_pages` serves the folder to a browser.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""What a page may load: its own styles, and nothing from anywhere."""


@dataclass(frozen=True)
class ResultPages:
    """A folder of result pages.

    Attributes:
        folder: of the pages; made with the first of them.
        base_url: where the folder is served (http or https), if it is; else the address of a page is its path.
        keep: pages of a suite that are kept; older ones are deleted.

    Example:
        >>> ResultPages(Path("pages"), base_url="http://127.0.0.1:3001/").address(Path("pages/rides/1.html"))
        'http://127.0.0.1:3001/rides/1.html'
    """

    folder: Path
    base_url: str | None = None
    keep: int = 50

    def add(self, result: "ExpectationSuiteValidationResult", *, run: str, at: datetime | None = None) -> str:
        """Write the page of a validation; gives its address.

        Args:
            result: what must not be seen must not be in it.
            run: what it was part of; a run may validate a suite more than once.
            at: when it was, by default now.
        """
        moment = (at or datetime.now(UTC)).astimezone(UTC)
        content: dict[str, Any] = dict(cast("Mapping[str, Any]", result.to_json_dict()))
        content["meta"] = {**content["meta"], "run_id": {"run_name": run, "run_time": moment.isoformat()}}
        suite = self.folder / _safe(result.suite_name)
        page = suite / f"{moment:%Y%m%dT%H%M%S.%fZ}-{_safe(run)}.html"
        # As it comes back from JSON: numpy's numbers trouble the renderers.
        _put(page, _page(json.loads(json.dumps(content, default=str))))
        # By name is by time.
        for old in sorted(suite.glob("*.html"), reverse=True)[self.keep :]:
            old.unlink(missing_ok=True)
        return self.address(page)

    def address(self, page: Path) -> str:
        """Where a page is seen: below `base_url`, or its path."""
        if not self.base_url:
            return str(page.resolve())
        return f"{self.base_url.rstrip('/')}/{quote(page.relative_to(self.folder).as_posix())}"


def base_url_from(text: str | None) -> str | None:
    """The address at which pages are served, as somebody has set it; None where nobody has.

    Raises:
        ValueError: it is no http address; it says what one looks like.

    Example:
        >>> base_url_from("http://127.0.0.1:3001")
        'http://127.0.0.1:3001'
    """
    if not text:
        return None
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"{text!r} is no address that pages can be served at; it looks like http://127.0.0.1:3001")
    return text


def _page(content: dict[str, Any]) -> str:
    from great_expectations.core.expectation_validation_result import (  # noqa: PLC0415 - takes seconds
        expectationSuiteValidationResultSchema,
    )
    from great_expectations.render.renderer import ValidationResultsPageRenderer  # noqa: PLC0415

    loaded = cast(
        "ExpectationSuiteValidationResult", expectationSuiteValidationResultSchema.load(_with_data_set_apart(content))
    )
    page = _view().render(ValidationResultsPageRenderer(run_info_at_end=True).render(loaded))
    # To pages of GX's site that there are not; what is of the data is still set apart, and so no link.
    return _LINK.sub(r"\1", page).translate(_AS_TEXT)


@cache
def _view() -> Any:
    """GX's page view; it compiles its templates once, which is most of what a page costs."""
    from great_expectations.render.view import DefaultJinjaPageView  # noqa: PLC0415 - takes seconds
    from jinja2 import ChoiceLoader, DictLoader  # noqa: PLC0415 - comes with it

    view = DefaultJinjaPageView()
    env: Any = view.env
    env.loader = ChoiceLoader([DictLoader(_TEMPLATES), env.loader])
    env.globals.update(style=_STYLE, policy=CONTENT_SECURITY_POLICY)
    return view


# GX puts some values into a page as they are, some escaped, some through templates of their own ($name) and some through
# Markdown. So each character of the data that any of these could take for its own goes through all of them as one of
# Unicode's private ones, and becomes an entity when the page is done.
_APART = 0xF0000
_MARKS = [ord(mark) for mark in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\n"]
_SET_APART = {**{_APART + mark: 0xFFFD for mark in _MARKS}, **{mark: _APART + mark for mark in _MARKS}}
_AS_TEXT = {_APART + mark: escape(chr(mark)) for mark in _MARKS}
_LINK = re.compile(r"<a\s[^>]*>(.*?)</a>", re.DOTALL)


def _with_data_set_apart(content: Mapping[str, Any]) -> dict[str, Any]:
    found = [
        {**one, "result": _set_apart(one["result"]), "exception_info": _set_apart(one["exception_info"])}
        for one in content["results"]
    ]
    return {**content, "results": found}


def _set_apart(value: Any) -> Any:
    if isinstance(value, dict):
        # Their keys are GX's.
        return {key: _set_apart(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_set_apart(one) for one in value]
    return value.translate(_SET_APART) if isinstance(value, str) else value


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100] or "_"


def _put(path: Path, text: str) -> None:
    """A whole file or none, whoever looks meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # By itself, as the bridge imports nothing of this project; not durable, since a lost page is missed by nobody.
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(path)


_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1.5em;color:#1c1e21}
h1{font-size:1.4em}h5{font-size:1.15em;margin:.2em 0}h6,.h6{font-size:1em;font-weight:600;margin:.2em 0}
table{border-collapse:collapse;width:100%;margin:.6em 0}
td,th{text-align:left;vertical-align:top;padding:.4em .9em .4em 0;border-bottom:1px solid #ddd;overflow-wrap:anywhere}
.ge-section{margin-bottom:2em}.alert{background:#f1f3f4;border-radius:4px;padding:.6em .9em}
.badge{background:#e8eaed;border-radius:3px;padding:.05em .4em;font-weight:600}
.text-danger{color:#b3261e}.text-success{color:#137333}.text-warning{color:#b06000}
.fa-times:before,.fa-exclamation-triangle:before{content:"✗"}.fa-check-circle:before{content:"✓"}
.fas{font-style:normal}ul{list-style:none;padding:0}
"""

_TEMPLATES = {
    "page.j2": """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="referrer" content="no-referrer">
<title>{{ page_title | e }}</title>
<style>{{ style }}</style>
</head>
<body>
<h1>{{ page_title | e }}</h1>
{% for section in sections %}{% set section_loop = loop -%}{% include 'section.j2' %}{% endfor %}
</body>
</html>
""",
    # GX opens it by a script.
    "collapse.j2": """<details><summary>{{ content_block.get("collapse_toggle_link", "More") | render_content_block }}</summary>
{% for block in content_block["collapse"] %}{{ block | render_content_block(content_block_id=content_block_id) }}{% endfor %}
</details>
""",
    # GX draws it by a script, of what the table beside it says.
    "graph.j2": "",
}
