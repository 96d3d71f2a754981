"""Write the result page of a validation: expected and found values side by side, and the violating rows.

Great Expectations' own pages load styles and scripts from five hosts and render row values as markup. Dagster shows history,
outcomes and the list of checks; this module writes one page a validation, FOLDER/<suite>/<time>-<run>.html:

- **A page is self-contained.** It loads nothing, and its `CONTENT_SECURITY_POLICY` forbids the browser to load anything.
- **Rows are text.** Everything on the page is escaped.
- **Every page has its own name**, so runs may write concurrently without a lock.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from keyfold.dagster.quality.outcome import EXAMPLES, Outcome

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""A page may use its own styles, and load nothing."""
KEPT = 50
"""Number of pages that are kept of each suite."""


@dataclass(frozen=True)
class ResultPages:
    """A folder of result pages; only its user can read them, since they have values of rows.

    Attributes:
        folder: the folder of the pages; created with the first page.
        base_url: the http or https address at which the folder is served; without it, the address of a page is its path.
    """

    folder: Path
    base_url: str | None = None

    def add(self, suite: str, outcomes: Collection[Outcome], *, scope: str, run: str) -> str:
        """Write the page of a validation, and return its address.

        Args:
            suite: the suite's name.
            outcomes: the outcomes, already masked.
            scope: which rows it saw, for people.
            run: the id of its run; a run may validate a suite more than once.
        """
        at = datetime.now(UTC)
        pages = self.folder / _safe(suite)
        for folder in (self.folder, pages):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        page = pages / f"{at:%Y%m%dT%H%M%S.%fZ}-{_safe(run)}.html"
        page.touch(mode=0o600)
        told = {"suite": suite, "outcomes": outcomes, "scope": scope, "run": run, "at": f"{at:%Y-%m-%d %H:%M:%S} UTC"}
        page.write_text(_page(told), encoding="utf-8")
        # Names begin with the time, so sorting by name sorts by time.
        for old in sorted(pages.glob("*.html"), reverse=True)[KEPT:]:
            old.unlink(missing_ok=True)
        if not self.base_url:
            return str(page.resolve())
        return f"{self.base_url.rstrip('/')}/{quote(page.relative_to(self.folder).as_posix())}"


def _page(told: Mapping[str, Any]) -> str:
    # Imported late: loading definitions writes no page.
    from jinja2 import Environment  # noqa: PLC0415

    # Escapes every value.
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(_PAGE)
    held = sum(outcome.is_good for outcome in told["outcomes"])
    return template.render(told, held=held, policy=CONTENT_SECURITY_POLICY, numbers=_FOUND, examples=EXAMPLES)


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100] or "_"


_FOUND = ("observed_value", "element_count", "missing_count", "unexpected_count")
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="referrer" content="no-referrer">
<title>{{ suite }}</title><style>
body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:72em;padding:0 1.5em;color:#1c1e21}
h1{font-size:1.4em}h2{font-size:1.05em;margin:1.6em 0 .2em}p{margin:.2em 0}
table{border-collapse:collapse;width:100%;margin:.6em 0}
td,th{text-align:left;vertical-align:top;padding:.4em .9em .4em 0;border-bottom:1px solid #ddd}
td{white-space:pre-wrap;overflow-wrap:anywhere}.good b{color:#137333}.bad b{color:#b3261e}
</style></head><body>
<h1>{{ suite }}: {{ "Succeeded" if held == outcomes | length else "Failed" }}</h1>
<p>at {{ at }} · run {{ run }} · scope {{ scope }} · {{ held }} of {{ outcomes | length }} expectations hold</p>
{% for found in outcomes %}
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
