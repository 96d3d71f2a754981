"""The result page of a validation: what was expected and what was found, side by side, and the rows that violate it.

Imports nothing of this project, no Dagster, and no Great Expectations, whose own pages load styles and scripts from five
hosts and take values of rows for markup. History, outcomes and the list of checks are Dagster's; here is one page a run:

    FOLDER/<suite>/<time>-<run>.html

- **A page stands alone.** It loads nothing, and forbids the browser to (`CONTENT_SECURITY_POLICY`).
- **Rows are text.** Everything on it is escaped.
- Every file is put in its place whole, under a name of its own: runs may write at once, without a lock.

`keyfold.dagster.serving.web_server` serves the folder to a browser.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from keyfold.dagster.quality.samples import SAMPLE, failure_reason

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult, ExpectationValidationResult

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
        suite = self.folder / _safe(result.suite_name)
        page = suite / f"{moment:%Y%m%dT%H%M%S.%fZ}-{_safe(run)}.html"
        _put(page, _page(result, run, moment))
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


def _page(validated: "ExpectationSuiteValidationResult", run: str, moment: datetime) -> str:
    held = sum(bool(one.success) for one in validated.results)
    about = {**validated.meta, "run": run, "at": moment.isoformat(sep=" ", timespec="seconds")}
    facts = " · ".join(f"{name} {value}" for name in ("at", "run", "scope") if (value := about.get(name)))
    outcome = "Succeeded" if held == len(validated.results) else "Failed"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(CONTENT_SECURITY_POLICY)}">
<meta name="referrer" content="no-referrer">
<title>{_text(validated.suite_name)}</title><style>{_STYLE}</style></head><body>
<h1>{_text(validated.suite_name)}: {outcome}</h1>
<p>{_text(facts)} · {held} of {len(validated.results)} expectations hold</p>
{"".join(map(_section, validated.results))}
</body></html>
"""


def _section(found: "ExpectationValidationResult") -> str:
    """An expectation: its terms, what was found, and rows that violate it."""
    config: Any = found.expectation_config
    problem = failure_reason(found)
    outcome = f"could not be evaluated: {problem}" if problem else "holds" if found.success else "violated"
    rows = found.result.get(SAMPLE) or []
    results = {name: found.result[name] for name in _FOUND if found.result.get(name) is not None}
    return (
        f'<section class="{"good" if found.success and not problem else "bad"}">'
        f"<h2>{_text(config.description or config.type)}</h2><p><b>{_text(outcome)}</b></p>"
        + _table(("expected", "found"), [(_lines({"type": config.type, **config.kwargs}), _lines(results))])
        + (_table(rows[0], [row.values() for row in rows]) if rows else "")
        + "</section>"
    )


def _lines(values: Mapping[str, Any]) -> str:
    """One value a line."""
    shown = {name: "; ".join(map(str, one)) if isinstance(one, list) else one for name, one in values.items()}
    return "\n".join(f"{name}: {one}" for name, one in shown.items())


def _table(names: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    cells = ["".join(f"<td>{_text(value)}</td>" for value in row) for row in rows]
    header = "".join(f"<th>{_text(name)}</th>" for name in names)
    return f"<table><tr>{header}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _text(value: Any) -> str:
    return escape(str(value))


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100] or "_"


def _put(path: Path, text: str) -> None:
    """A whole file or none, whoever looks meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # By itself, as the bridge imports nothing of this project; not durable, since a lost page is missed by nobody.
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.write_text(text, encoding="utf-8")
    written.replace(path)


_FOUND = (
    "observed_value",
    "element_count",
    "missing_count",
    "unexpected_count",
    "unexpected_percent",
    "partial_unexpected_list",
)
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1.5em;color:#1c1e21}
h1{font-size:1.4em}h2{font-size:1.05em;margin:1.6em 0 .2em}p{margin:.2em 0}
table{border-collapse:collapse;width:100%;margin:.6em 0}
td,th{text-align:left;vertical-align:top;padding:.4em .9em .4em 0;border-bottom:1px solid #ddd}
td{white-space:pre-wrap;overflow-wrap:anywhere}.good b{color:#137333}.bad b{color:#b3261e}
"""
