"""Great Expectations Data Docs of many suites in one folder, with history; a page costs what a page costs.

Imports nothing of this project, and no Dagster.

GX's own site builder writes its index from every result that was ever kept, at each run. Here a validation writes its
own page, with GX's own renderers, and two small tables of contents:

    index.html                                     every suite, how its last validation went, and a line for its history
    expectations/<suite>.html                      what the suite expects; written anew only when that has changed
    validations/<suite>/index.html                 the validations kept, newest first
    validations/<suite>/<run>/<time>/result.html   one validation, and result.json, GX's own format, beside it

Two runs may build at once: pages have names of their own, the tables of contents are written under a lock, and every
file is put in its place whole. The pages load Bootstrap from the net, as all Data Docs do, and are plain text without.
Look at them by their files, or serve the folder: `python -m http.server --directory FOLDER --bind 127.0.0.1 8001`.
"""

import json
import os
import re
import shutil
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from filelock import FileLock

if TYPE_CHECKING:
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.expectations import Expectation

_LOGO = re.compile(r"https://great-expectations-web-assets[^\"')]*")
"""Asked from its maker at every look at a page."""
_STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:64em;padding:0 1em}table{border-collapse:collapse}"
    "td,th{text-align:left;padding:.35em 1em .35em 0;border-bottom:1px solid #ddd}a{color:#0b62a4}"
    ".good{color:#137333}.bad{color:#b3261e}"
)


@dataclass(frozen=True)
class _Entry:
    """A validation in its suite's history."""

    page: str
    at: str
    run: str
    expectations: int
    failed: int
    not_evaluated: int
    note: str


@dataclass(frozen=True)
class DataDocs:
    """A Data Docs site.

    Attributes:
        folder: of the site.
        base_url: where the folder is served, if it is; else addresses are `file://`.
        keep: validations of a suite that are kept; older ones are deleted.
    """

    folder: Path
    base_url: str | None = None
    keep: int = 50

    def add(
        self,
        result: "ExpectationSuiteValidationResult",
        *,
        expectations: Mapping[str, "Expectation"],
        run: str,
        at: datetime | None = None,
    ) -> str:
        """Write the page of a validation; gives its address.

        Args:
            result: what must not be seen must not be in it.
            expectations: the whole suite, of which the validation may be of a part.
            run: what it was part of; a run may validate a suite more than once.
            at: when it was, by default now.
        """
        moment = (at or datetime.now(UTC)).astimezone(UTC)
        suite = _safe(result.suite_name)
        content: dict[str, Any] = {**cast("Mapping[str, Any]", result.to_json_dict()), "suite_name": suite}
        content["meta"] = {**content["meta"], "run_id": {"run_name": run, "run_time": moment.isoformat()}}
        place = Path("validations", suite, _safe(run), moment.strftime("%Y%m%dT%H%M%S.%fZ"), "result.html")
        text = json.dumps(content, default=str)
        _put(self.folder / place.with_suffix(".json"), text)
        # What is kept is what is shown; and numpy's numbers failure_reason the renderers.
        _put(self.folder / place, _validation_page(json.loads(text)))
        with FileLock(self.folder / ".lock"):
            self._put_expectations(suite, expectations)
            history = self._history(suite)
            history.append(_entry(place.as_posix(), moment, run, content))
            # Of two runs the later may come first to the lock.
            history.sort(key=lambda entry: entry.at, reverse=True)
            self._put_history(suite, history[: self.keep])
            for entry in history[self.keep :]:
                self._delete(entry)
            self._put_index()
        return self.address(place.as_posix())

    def address(self, page: str = "index.html") -> str:
        """Where a page is seen."""
        if self.base_url:
            return f"{self.base_url.rstrip('/')}/{quote(page)}"
        return (self.folder.resolve() / page).as_uri()

    def _put_expectations(self, suite: str, expectations: Mapping[str, "Expectation"]) -> None:
        configurations = [one.configuration.to_json_dict() for one in expectations.values()]
        text = json.dumps([{**one, "id": None} for one in configurations], sort_keys=True)
        known = self.folder / "expectations" / f"{suite}.json"
        if not known.exists() or known.read_text(encoding="utf-8") != text:
            _put(self.folder / "expectations" / f"{suite}.html", _suite_page(suite, expectations))
            _put(known, text)

    def _history(self, suite: str) -> list[_Entry]:
        kept = self.folder / "validations" / suite / "history.json"
        return [_Entry(**entry) for entry in json.loads(kept.read_text(encoding="utf-8"))] if kept.exists() else []

    def _put_history(self, suite: str, history: list[_Entry]) -> None:
        rows = [
            f'<tr><td><a href="../../{quote(entry.page)}">{escape(entry.at)}</a></td>{_outcome(entry)}'
            f"<td>{escape(entry.run)}</td><td>{escape(entry.note)}</td></tr>"
            for entry in history
        ]
        head = "<tr><th>validation</th><th>outcome</th><th>run</th><th></th></tr>"
        links = f'<p><a href="../../index.html">All suites</a> · <a href="../../expectations/{suite}.html">Expectations</a></p>'
        page = _page(suite, f"{links}<table>{head}{''.join(rows)}</table>")
        folder = self.folder / "validations" / suite
        _put(folder / "index.html", page)
        _put(folder / "history.json", json.dumps([asdict(entry) for entry in history]))

    def _put_index(self) -> None:
        rows = []
        for kept in sorted((self.folder / "validations").glob("*/history.json")):
            suite, history = kept.parent.name, self._history(kept.parent.name)
            if history:
                rows.append(
                    f'<tr><td><a href="validations/{suite}/index.html">{escape(suite)}</a></td>'
                    f'<td><a href="{quote(history[0].page)}">{escape(history[0].at)}</a></td>{_outcome(history[0])}'
                    f"<td>{_trail(history)}</td></tr>"
                )
        head = "<tr><th>suite</th><th>last validation</th><th>outcome</th><th>before, newest first</th></tr>"
        _put(self.folder / "index.html", _page("Data Docs", f"<table>{head}{''.join(rows)}</table>"))

    def _delete(self, entry: _Entry) -> None:
        page = self.folder / entry.page
        shutil.rmtree(page.parent, ignore_errors=True)
        run = page.parent.parent
        if run.is_dir() and not any(run.iterdir()):
            run.rmdir()


def _entry(page: str, moment: datetime, run: str, content: Mapping[str, Any]) -> _Entry:
    results = content["results"]
    errors = sum(bool(one["exception_info"].get("raised_exception")) for one in results)
    return _Entry(
        page=page,
        at=moment.isoformat(sep=" ", timespec="milliseconds"),
        run=run,
        expectations=len(results),
        failed=sum(not one["success"] for one in results) - errors,
        not_evaluated=errors,
        note=str(content["meta"].get("scope", "")),
    )


def _outcome(entry: _Entry) -> str:
    wrong = [f"{entry.failed} failed"] * bool(entry.failed) + [f"{entry.not_evaluated} not evaluated"] * bool(
        entry.not_evaluated
    )
    kind = "bad" if wrong else "good"
    return f'<td class="{kind}">{", ".join(wrong) or "all good"} of {entry.expectations}</td>'


def _trail(history: list[_Entry]) -> str:
    marks = [
        f'<a class="{"bad" if one.failed or one.not_evaluated else "good"}" href="{quote(one.page)}" '
        f'title="{escape(one.at)}">{"✗" if one.failed or one.not_evaluated else "✓"}</a>'
        for one in history[1:21]
    ]
    return " ".join(marks)


def _page(title: str, body: str) -> str:
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>{body}</body></html>"
    )


def _validation_page(content: dict[str, Any]) -> str:
    from great_expectations.core.expectation_validation_result import (  # noqa: PLC0415 - takes seconds
        expectationSuiteValidationResultSchema,
    )
    from great_expectations.render.renderer import ValidationResultsPageRenderer  # noqa: PLC0415

    loaded = cast(
        "ExpectationSuiteValidationResult", expectationSuiteValidationResultSchema.load(_with_data_as_text(content))
    )
    return _local(_view().render(ValidationResultsPageRenderer(run_info_at_end=True).render(loaded)))


def _suite_page(suite: str, expectations: Mapping[str, "Expectation"]) -> str:
    import great_expectations as gx  # noqa: PLC0415 - takes seconds
    from great_expectations.render.renderer import ExpectationSuitePageRenderer  # noqa: PLC0415

    whole = gx.ExpectationSuite(
        name=suite, expectations=[one.copy(update={"id": None}) for one in expectations.values()]
    )
    return _local(_view().render(ExpectationSuitePageRenderer().render(whole)))


@cache
def _view() -> Any:
    """GX's page view; it compiles its templates once, which is most of what a page costs."""
    from great_expectations.render.view import DefaultJinjaPageView  # noqa: PLC0415

    return DefaultJinjaPageView()


def _local(page: str) -> str:
    return _LOGO.sub("data:,", page)


def _with_data_as_text(content: Mapping[str, Any]) -> dict[str, Any]:
    """What comes of the data without markup, which GX's templates would write into the page as it is."""
    found = [
        {**one, "result": _escaped(one["result"]), "exception_info": _escaped(one["exception_info"])}
        for one in content["results"]
    ]
    return {**content, "results": found}


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_escaped(one) for one in value]
    return escape(value, quote=False) if isinstance(value, str) else value


def _safe(name: str) -> str:
    # No dots either: GX's links take them for folders.
    return re.sub(r"[^A-Za-z0-9_-]", "_", name) or "_"


def _put(path: Path, text: str) -> None:
    """A whole file or none: whoever looks meanwhile sees the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    written.write_text(text, encoding="utf-8")
    written.replace(path)
