"""Write the result page of a validation: expected and found values side by side, and the violating rows.

Great Expectations' own pages load styles and scripts from five hosts and render row values as markup. Dagster shows history,
outcomes and the list of checks; this module writes one page a run, FOLDER/<suite>/<time>-<run>.html:

- **A page is self-contained.** It loads nothing, and its `CONTENT_SECURITY_POLICY` forbids the browser to load anything.
- **Rows are text.** Everything on the page is escaped.
- **Writes are atomic.** Every page has its own name and is renamed into place, so runs may write concurrently without a lock.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from keyfold.dagster.quality.outcome import EXAMPLES, Validation

if TYPE_CHECKING:
    from jinja2 import Template

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""A page may use its own styles, and load nothing."""


@dataclass(frozen=True)
class ResultPages:
    """A folder of result pages.

    Attributes:
        folder: the folder of the pages; created with the first page.
        base_url: the http or https address at which the folder is served; without it, the address of a page is its path.
        keep: number of pages to keep per suite; older pages are deleted.

    Example:
        >>> ResultPages(Path("pages"), base_url="http://127.0.0.1:3001/").address(Path("pages/rides/1.html"))
        'http://127.0.0.1:3001/rides/1.html'
    """

    folder: Path
    base_url: str | None = None
    keep: int = 50

    def add(self, validated: Validation, *, run: str, at: datetime | None = None) -> str:
        """Write the page of a validation, and return its address.

        Args:
            validated: the validation, already masked.
            run: the id of its run; a run may validate a suite more than once.
            at: the time of the validation; default: now.
        """
        moment = (at or datetime.now(UTC)).astimezone(UTC)
        suite = self.folder / _safe(validated.suite)
        page = suite / f"{moment:%Y%m%dT%H%M%S.%fZ}-{_safe(run)}.html"
        _put(page, _page(validated, run, moment))
        # Names begin with the time, so sorting by name sorts by time.
        for old in sorted(suite.glob("*.html"), reverse=True)[self.keep :]:
            old.unlink(missing_ok=True)
        return self.address(page)

    def address(self, page: Path) -> str:
        """Return a page's address below `base_url`, or its path."""
        if not self.base_url:
            return str(page.resolve())
        return f"{self.base_url.rstrip('/')}/{quote(page.relative_to(self.folder).as_posix())}"


def _page(validated: Validation, run: str, moment: datetime) -> str:
    at = moment.isoformat(sep=" ", timespec="seconds")
    policy, held = CONTENT_SECURITY_POLICY, sum(one.is_good for one in validated.outcomes)
    return _template().render(
        one=validated, run=run, at=at, held=held, policy=policy, numbers=_FOUND, examples=EXAMPLES
    )


@cache
def _template() -> "Template":
    # Imported late: loading definitions writes no page.
    from jinja2 import Environment  # noqa: PLC0415

    # Escapes every value.
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_PAGE)


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100] or "_"


def _put(path: Path, text: str) -> None:
    """Write a file atomically."""
    # Pages have values of rows: they are their user's alone, whatever the process's umask is.
    for folder in (path.parent.parent, path.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not keyfold.storage's writer, since this package imports nothing else of this project. A lost page needs no fsync.
    written = path.with_name(f".{path.name}.{os.getpid()}")
    written.touch(mode=0o600)
    written.write_text(text, encoding="utf-8")
    written.replace(path)


_FOUND = ("observed_value", "element_count", "missing_count", "unexpected_count", "unexpected_percent")
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="referrer" content="no-referrer">
<title>{{ one.suite }}</title><style>
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1.5em;color:#1c1e21}
h1{font-size:1.4em}h2{font-size:1.05em;margin:1.6em 0 .2em}p{margin:.2em 0}
table{border-collapse:collapse;width:100%;margin:.6em 0}
td,th{text-align:left;vertical-align:top;padding:.4em .9em .4em 0;border-bottom:1px solid #ddd}
td{white-space:pre-wrap;overflow-wrap:anywhere}.good b{color:#137333}.bad b{color:#b3261e}
</style></head><body>
<h1>{{ one.suite }}: {{ "Succeeded" if held == one.outcomes | length else "Failed" }}</h1>
<p>at {{ at }} · run {{ run }} · scope {{ one.scope }} · {{ held }} of {{ one.outcomes | length }} expectations hold</p>
{% for found in one.outcomes %}
<section class="{{ "good" if found.is_good else "bad" }}">
<h2>{{ found.expectation.description or found.expectation.type }}</h2>
<p><b>{{ "could not be evaluated: " ~ found.problem if found.problem else "holds" if found.success else "violated" }}</b></p>
<table><tr><th>expected</th><th>found</th></tr><tr><td>type: {{ found.expectation.type }}
{% for name, value in found.expectation.kwargs.items() %}
{{ name }}: {{ value }}
{% endfor %}
</td><td>
{%- for name in numbers if found.result.get(name) is not none %}
{{ name }}: {{ found.result.get(name) }}
{% endfor %}
</td></tr></table>
{% for row in found.result.get(examples) or () %}
{% if loop.first %}<table><tr>{% for name in row %}<th>{{ name }}</th>{% endfor %}</tr>{% endif %}
<tr>{% for value in row.values() %}<td>{{ value }}</td>{% endfor %}</tr>
{% if loop.last %}</table>{% endif %}
{% endfor %}
</section>
{% endfor %}
</body></html>
"""
