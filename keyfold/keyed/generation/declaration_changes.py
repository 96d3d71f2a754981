"""Find what a job declares otherwise than its generation was created with, in the author's words and by argument."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from keyfold.errors import Misconfigured, counted
from keyfold.keyed.forms.form_differences import Defaults, as_columns, form_differences
from keyfold.keyed.forms.values import Form, Forms
from keyfold.keyed.generation.declaration import Declaration, FunctionCode, declaration_of
from keyfold.keyed.generation.declaration_difference import Difference, Section, difference_of, parameter_text
from keyfold.keyed.generation.generation_record import GenerationRecord
from keyfold.keyed.job.building import build_job
from keyfold.keyed.job.contract import KeyedJob


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
        settings: what its author declares otherwise than the generation was created with, but for the code of functions.
        effects: what else differs, of what is read and stored, since it follows from the settings.
        code: the code of its functions now, with the generation's parameters, by label (`code_differences`).
    """

    settings: tuple[Difference, ...]
    effects: tuple[Difference, ...]
    code: Mapping[str, FunctionCode]


def compare(record: GenerationRecord, job: KeyedJob) -> Comparison:
    """Compare what a job declares with the record of a generation."""
    then, now = record.declaration, declaration_of(job)
    like = like_recorded(record, job)
    # What an author gives may follow from parameters, of which each is a change of its own. What is stored counts as it will be.
    now_like = now if like is job else declaration_of(like)
    settings = [*_arguments(then, now_like, like)]
    settings += [difference for difference in _stored(then, now_like) if _is_declared(difference, job, then)]
    places = {(difference.section, difference.path) for difference in settings}
    settings += _parameters(record, job)
    others = [difference for difference in _stored(then, now) if (difference.section, difference.path) not in places]
    if not settings:
        # It follows from what is none of the job's arguments, such as the columns of a stream.
        settings = [difference for difference in others if _is_seen(difference, job)] or others
        others = [difference for difference in others if difference not in settings]
    return Comparison(tuple(settings), tuple(others), now_like.code)


def _is_declared(difference: Difference, job: KeyedJob, then: Declaration) -> bool:
    """Whether an author has given it to a job, and not as an argument of the operator that made it."""
    section, path = difference.section, difference.path
    if job.operator is not None:
        # An input of an operator is new or gone with the argument that names it.
        return section in ("contents", "key_groups") or (section == "inputs" and len(path) > 1)
    if section == "tables":
        return _is_seen(difference, job)
    if section == "state" and path == ("columns",):
        # The columns of the key are of every state.
        old, new = (set(form["of"].items()) for form in (difference.before, difference.after))
        return any(name not in {*then.key, *job.key} for name, _ in old ^ new)
    return section not in ("events", "hash")


def _is_seen(difference: Difference, job: KeyedJob) -> bool:
    """Whether it is of what people read, and not of columns that Keyfold or an operator has for itself."""
    if difference.section == "tables":
        return not difference.path[0].startswith(("late.", "changes."))
    return job.operator is None and difference.section == "events"


def _arguments(then: Declaration, now: Declaration, job: KeyedJob) -> Iterator[Difference]:
    if then.operator != now.operator:
        step = "a step of its own"
        words = f"{then.operator or step} → {now.operator or step}"
        yield Difference("operator", (), "operator", then.operator, now.operator, words)
        return
    signature, defaults = _defaults(job)
    # An argument that the operator had not when the generation was created is none that its author gave.
    before = {name: signature.get(name) for name in now.arguments if name not in then.arguments} | then.arguments
    for name in sorted({*before, *now.arguments}):
        for part in form_differences(before.get(name), now.arguments.get(name), defaults, (name,)):
            # An input or a table that is new or gone is so in what is stored.
            if not (job.operator is None and name in ("inputs", "tables") and len(part.path) == _OF_A_WHOLE):
                yield difference_of("arguments", part)


_OF_A_WHOLE = 2


def _stored(then: Declaration, now: Declaration) -> Iterator[Difference]:
    for section in _STORED:
        before, after = _plain(section, then), _plain(section, now)
        for part in form_differences(before, after, {}):
            yield difference_of(section, part)


_STORED: tuple[Section, ...] = (
    "inputs",
    "lookups",
    "contents",
    "tables",
    "key",
    "key_groups",
    "hash",
    "events",
    "state",
)


def _defaults(job: KeyedJob) -> tuple[dict[str, Form], Defaults]:
    """Return the forms of arguments that are not given to a job's operator, and of fields of the objects that are."""
    if job.operator is None:
        return {}, {}
    parameters, hints, forms = inspect.signature(job.operator.function).parameters, job.operator.hints, Forms()
    for name, value in job.operator.arguments.items():
        forms.of(name, value, hints.get(name))
    return {
        name: Forms().of(name, parameter.default, hints.get(name))
        for name, parameter in parameters.items()
        if parameter.default is not parameter.empty
    }, forms.defaults


def _parameters(record: GenerationRecord, job: KeyedJob) -> Iterator[Difference]:
    for name in sorted({*record.parameters, *job.parameters}):
        before, after = record.parameters.get(name), job.parameters.get(name)
        if before != after:
            words = " → ".join(map(parameter_text, (before, after)))
            yield Difference("parameters", (name,), f"parameter {name}", before, after, words)


def _plain(section: Section, declaration: Declaration) -> Form:
    """Return a part of a declaration as a form."""
    value = getattr(declaration, section)
    if section == "inputs":
        return {name: _as_read(input_) for name, input_ in value.items()}
    if section == "tables":
        return {
            name: {**table.model_dump(mode="json"), "columns": as_columns(table.columns)}
            for name, table in value.items()
        }
    if section == "state":
        return {"columns": as_columns(value.columns), "version": value.version}
    if section == "events":
        return as_columns(value)
    return list(value) if isinstance(value, tuple) else value


def _as_read(input_: Mapping[str, Form]) -> Form:
    """Return how an input is read, in the words of its arguments."""
    at, _, time_from = input_["at"].partition(" from ")
    by_arrival = "arrival" if input_["goes_by_arrival"] else "quarantine"
    return {**input_, "at": at, "goes_by_arrival": by_arrival, **({"time_from": time_from} if time_from else {})}


def code_differences(before: Mapping[str, FunctionCode], after: Mapping[str, FunctionCode]) -> list[Difference]:
    """Return the functions whose code differs, with the parts in which it does."""
    return [
        Difference(
            "code",
            (label,),
            label.removeprefix("source.").replace(".", ": "),
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
