"""A setting of a job that differs from the record of its generation, in the author's words."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from keyfold.keyed.forms.form_differences import FormDifference
from keyfold.keyed.forms.form_text import change_text, text_of
from keyfold.keyed.forms.values import Form
from keyfold.times import duration_text

Section = Literal[
    "operator", "arguments", "inputs", "lookups", "contents", "key", "key_groups", "hash", "events", "state", "tables",
    "parameters", "code",
]  # fmt: skip

_WORDS = {"events": "columns of events", "goes_by_arrival": "missing_time"}
_FREE = {("inputs", "idle_timeout"), ("arguments", "one_per_key")}
"""Settings on which neither state nor rows depend."""


@dataclass(frozen=True)
class Difference:
    """A setting that differs.

    Attributes:
        section: the part of the declaration.
        path: its place in it.
        setting: the same in the author's words: `where`, `aggregates: slowest`, `key_groups`.
        before, after: canonical forms; None where there is none.
        words: what changed, as text.
    """

    section: Section
    path: tuple[str, ...]
    setting: str
    before: Form
    after: Form
    words: str

    @property
    def is_free(self) -> bool:
        """Whether a run may differ in it, since neither state nor rows depend on it."""
        return bool(self.path) and (self.section, self.path[-1]) in _FREE

    @property
    def is_code(self) -> bool:
        """Whether it is the code of a function: a run goes on with it, and what it means is the author's to judge."""
        return self.section == "code"

    @property
    def texts(self) -> tuple[str | None, str | None]:
        """The old and the new value as text; None where there is none."""
        before, after = (None if form is None else self._text(form) for form in (self.before, self.after))
        return before, after

    def _text(self, form: Form) -> str:
        if self.section == "parameters":
            return parameter_text(form)
        if self.is_whole:
            return self.path[0]
        return form if isinstance(form, str) else text_of(form)

    @property
    def is_whole(self) -> bool:
        """Whether it is an input, a table or a lookup that is new or gone."""
        is_one_of_several = self.section in ("inputs", "tables", "lookups") and len(self.path) == 1
        return is_one_of_several and None in (self.before, self.after)

    def __str__(self) -> str:
        return said(self.setting, self.words)


def said(setting: str, words: str) -> str:
    """Return a setting with what changed in it: `length: 1h → 2h`, `aggregates: slowest = min(speed) is new`."""
    return f"{setting}{'' if words.startswith('=') else ':'} {words}"


def difference_of(section: Section, part: FormDifference) -> Difference:
    """Return a part in which two declarations differ as a setting in words.

    Example:
        >>> str(difference_of("arguments", FormDifference(("length",), {"$": "duration", "of": "1h"}, {"$": "duration", "of": "2h"})))
        'length: 1h → 2h'
    """
    path, before, after = part.path, part.before, part.after
    words = change_text(*(_step_decides(path, form) for form in (before, after)))
    if len(path) == 1 and section in ("inputs", "tables", "lookups") and None in (before, after):
        words = "new" if before is None else "gone"
    elif part.is_entry and section == "arguments" and None in (before, after):
        words = f"= {words}"
    return Difference(section, path, _setting(section, path), before, after, words)


def _step_decides(path: tuple[str, ...], form: Form) -> Form:
    is_nothing = isinstance(form, dict) and form.get("$") == "expression" and form["of"][-1] is None
    return "STEP_DECIDES" if path and path[-1] == "final_at" and is_nothing else form


def _setting(section: Section, path: tuple[str, ...]) -> str:
    if section == "arguments":
        return ": ".join(_of_argument(*path))
    match section, path:
        case (("inputs" | "tables" | "lookups"), (name, *rest)):
            words = [f"{section.removesuffix('s')} {name}", *(_WORDS.get(part, part) for part in rest)]
        case ("contents", (name,)):
            words = [f"content of {name}"]
        case ("state", (part,)):
            words = [f"{part} of state"]
        case _:
            words = [_WORDS.get(section, section), *path]
    return ": ".join(words)


def _of_argument(argument: str, *rest: str) -> list[str]:
    match argument, rest:
        case (("source" | "left" | "right" | "events"), ("table",)):
            return [argument]
        case "source", _:
            return [*rest]
        case (("inputs" | "tables"), (name, *further)):
            return [f"{argument.removesuffix('s')} {name}", *further]
        case "of", _:
            return ["aggregates", *rest]
    return [argument, *rest]


def parameter_text(value: Any) -> str:
    """Return a value of a parameter as a command takes it: records have durations in the form of ISO 8601."""
    if isinstance(value, str) and value.startswith("P"):
        with suppress(ValidationError):
            return duration_text(_DURATIONS.validate_python(value))
    return str(value)


_DURATIONS = TypeAdapter(timedelta)
