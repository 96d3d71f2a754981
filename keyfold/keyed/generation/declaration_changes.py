"""Find what a job declares otherwise than its generation was created with, in the author's words and by argument."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from difflib import SequenceMatcher
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from keyfold.errors import Misconfigured, counted
from keyfold.keyed.forms.form_text import change_text
from keyfold.keyed.forms.values import Form, Forms, text_to_sort
from keyfold.keyed.generation.declaration import Declaration, FunctionCode, declaration_of
from keyfold.keyed.generation.generation_record import GenerationRecord
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob
from keyfold.times import duration_text

Section = Literal[
    "operator", "arguments", "inputs", "lookups", "contents", "key", "key_groups", "hash", "events", "state", "tables",
    "parameters", "code",
]  # fmt: skip

_WORDS = {"of": "aggregates", "events": "columns of events", "source": ""}
_FREE = {("inputs", "idle_timeout"), ("arguments", "one_per_key")}
"""Settings on which neither state nor rows depend."""


@dataclass(frozen=True)
class Difference:
    """A setting that differs.

    Attributes:
        section: the part of the declaration.
        path: where in it.
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

    def __str__(self) -> str:
        return f"{self.setting}: {self.words}"


def like_recorded(record: GenerationRecord, job: KeyedJob) -> KeyedJob:
    """Return a job with the parameters of a generation, as far as it still has them: what differs then is the code's."""
    recorded = {name: value for name, value in record.parameters.items() if name in job.parameter_fields}
    if job.build is None or recorded == dict(job.parameters):
        return job
    try:
        # Those that the generation does not know have their defaults.
        return build_job(job, recorded)
    except Misconfigured:
        return job


@dataclass(frozen=True)
class Comparison:
    """A job beside the record of a generation.

    Attributes:
        settings: what the job declares otherwise than the generation was created with, but for the code of its functions.
        code: the code of its functions now, with the generation's parameters, by label (`code_differences`).
    """

    settings: tuple[Difference, ...]
    code: Mapping[str, FunctionCode]


def compare(record: GenerationRecord, job: KeyedJob) -> Comparison:
    """Compare what a job declares with the record of a generation."""
    then, now = record.declaration, declaration_of(job)
    like = like_recorded(record, job)
    # What an author gives may follow from parameters, of which each is a change of its own. What is stored counts as it will be.
    now_like = now if like is job else declaration_of(like)
    settings = (*_arguments(then, now_like, like), *_stored(then, now), *_parameters(record, job))
    return Comparison(settings, now_like.code)


def _arguments(then: Declaration, now: Declaration, job: KeyedJob) -> Iterator[Difference]:
    if then.operator != now.operator:
        step = "a step of its own"
        words = f"{then.operator or step} → {now.operator or step}"
        yield Difference("operator", (), "operator", then.operator, now.operator, words)
        return
    defaults = _defaults(job)
    # An argument that the operator had not when the generation was created is none that its author gave.
    before = {name: defaults.get(name) for name in now.arguments if name not in then.arguments} | then.arguments
    for difference in _compared("arguments", before, now.arguments):
        # An input or a table that is new or gone is so in what is stored.
        if not (difference.path[0] in ("inputs", "tables") and len(difference.path) == _OF_A_WHOLE):
            yield difference


_OF_A_WHOLE = 2


def _stored(then: Declaration, now: Declaration) -> Iterator[Difference]:
    for section in ("inputs", "lookups", "contents", "tables"):
        before, after = _plain(getattr(then, section)), _plain(getattr(now, section))
        yield from _compared(section, before, after)
    for section in ("key", "key_groups", "hash"):
        yield from _leaf(section, (), _plain(getattr(then, section)), _plain(getattr(now, section)))
    yield from _leaf("events", (), _columns(then.events), _columns(now.events))
    yield from _leaf("state", ("columns",), _columns(then.state.columns), _columns(now.state.columns))
    yield from _leaf("state", ("version",), then.state.version, now.state.version)


def _defaults(job: KeyedJob) -> dict[str, Form]:
    if job.operator is None:
        return {}
    parameters, hints = inspect.signature(job.operator.function).parameters, job.operator.hints
    return {
        name: Forms().of(name, parameter.default, hints.get(name))
        for name, parameter in parameters.items()
        if parameter.default is not parameter.empty
    }


def _parameters(record: GenerationRecord, job: KeyedJob) -> Iterator[Difference]:
    for name in sorted({*record.parameters, *job.parameters}):
        before, after = record.parameters.get(name), job.parameters.get(name)
        if before != after:
            words = " → ".join(map(_parameter_text, (before, after)))
            yield Difference("parameters", (name,), f"parameter {name}", before, after, words)


def _parameter_text(value: Any) -> str:
    """Return a value of a parameter as a command takes it: records have durations in the form of ISO 8601."""
    if isinstance(value, str) and value.startswith("P"):
        with suppress(ValidationError):
            return duration_text(_DURATIONS.validate_python(value))
    return str(value)


_DURATIONS = TypeAdapter(timedelta)


def _plain(value: Any) -> Form:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if hasattr(value, "model_dump"):
        dumped = value.model_dump(mode="json")
        return {**dumped, "columns": _columns(dumped["columns"])} if "columns" in dumped else dumped
    return list(value) if isinstance(value, tuple) else value


def _columns(columns: Mapping[str, str]) -> Form:
    return {"$": "columns", "of": dict(columns)}


def _compared(section: Section, before: Form, after: Form, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Compare two forms; mappings, and objects of one class, field by field."""
    if not (_has_fields(before) and _has_fields(after) and before.get("$") == after.get("$")):
        yield from _leaf(section, path, before, after)
        return
    for name in sorted({*before, *after} - {"$"}):
        yield from _compared(section, before.get(name), after.get(name), (*path, name))


def _has_fields(form: Form) -> bool:
    return isinstance(form, dict) and not ("$" in form and "of" in form)


def _leaf(section: Section, path: tuple[str, ...], before: Form, after: Form) -> Iterator[Difference]:
    if text_to_sort(before) == text_to_sort(after):
        return
    words = _change(before, after)
    if len(path) == 1 and section in ("inputs", "tables", "lookups") and None in (before, after):
        words = "new" if before is None else "gone"
    yield Difference(section, path, _setting(section, path), before, after, words)


def _setting(section: Section, path: tuple[str, ...]) -> str:
    match section, path:
        case "arguments", ("source", *rest):
            words = [*map(_word, rest)]
        case "arguments", ("inputs", name, *rest):
            words = [f"input {name}", *map(_word, rest)]
        case "arguments", ("tables", name, *rest):
            words = [f"table {name}", *rest]
        case "arguments", _:
            words = [_WORDS.get(path[0], path[0]), *map(_word, path[1:])]
        case "inputs", (name, *rest):
            words = [f"input {name}", *rest]
        case (("tables" | "lookups"), (name, *rest)):
            words = [f"{section.removesuffix('s')} {name}", *rest]
        case ("contents", (name,)):
            words = [f"content of {name}"]
        case ("state", ("columns",)):
            words = ["columns of state"]
        case ("state", ("version",)):
            words = ["version of state"]
        case _:
            words = [_WORDS.get(section, section), *path]
    return ": ".join(word for word in words if word)


def _word(part: str) -> str:
    return part.replace("_", " ") if part == "final_at" else part


def _change(before: Form, after: Form) -> str:
    if all(isinstance(form, dict) and form.get("$") == "columns" for form in (before, after)):
        old, new = before["of"], after["of"]
        effects = [f"{name} is new" for name in new if name not in old]
        effects += [f"{name} is gone" for name in old if name not in new]
        effects += [f"{name} {old[name]} → {new[name]}" for name in new if name in old and old[name] != new[name]]
        return ", ".join(effects)
    return change_text(before, after)


def code_differences(before: Mapping[str, FunctionCode], after: Mapping[str, FunctionCode]) -> list[Difference]:
    """Return the functions whose code differs, with the parts in which it does."""
    return [
        Difference(
            "code",
            (label,),
            label.removeprefix("source."),
            before[label].digest,
            after[label].digest,
            _code(before[label], after[label]),
        )
        for label in after
        # A function that is new or gone is so with the argument that has it.
        if label in before and before[label].digest != after[label].digest
    ]


def _code(before: FunctionCode, after: FunctionCode) -> str:
    parts = []
    for name in sorted({*before.parts, *after.parts}):
        old, new = before.parts.get(name, ()), after.parts.get(name, ())
        if old == new:
            continue
        matched = sum(block.size for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks())
        lines = max(len(old), len(new)) - matched
        parts.append(name if max(len(old), len(new)) == 1 else f"{counted(lines, 'line')} in {name}")
    return f"code changed ({', '.join(parts)})" if parts else "code changed"
