"""What a job declares, in canonical forms: the fingerprint that a generation keeps of it.

A job that an operator made is declared by the operator and its arguments; one with a step of its own by its inputs, state, step
and tables. Both have the settings that follow from these or from parameters, and by which state and rows are stored.
"""

from typing import Any

from pydantic import Field

from keyfold.keyed.forms.code import code_of
from keyfold.keyed.forms.values import Form, Forms, columns_form
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.rows.hashing import HASH
from keyfold.stream import Stream
from keyfold.validation import Record

_SETTINGS_OF_JOBS = ("name", "settings")
"""Arguments of operators that the job has as its own."""


class FunctionCode(Record):
    """The code of a function that a job was given (`forms.code`).

    Attributes:
        digest: of all that counts.
        parts: digests of lines, by the name of the function, class or constant.
    """

    digest: str
    parts: dict[str, tuple[str, ...]]


class StateDeclaration(Record):
    """The state of a job.

    Attributes:
        columns: types by name.
        version: the version of its meaning.
        aggregates: the columns of each aggregate of an operator, by its name.
    """

    columns: dict[str, str]
    version: int = 1
    aggregates: dict[str, tuple[str, ...]] = Field(default_factory=dict)


class TableDeclaration(Record):
    """A table of a job.

    Attributes:
        mode, key: how rows are written.
        columns: types by name.
    """

    mode: str
    key: tuple[str, ...] = ()
    columns: dict[str, str]


class Declaration(Record):
    """What a job declares.

    Attributes:
        operator: the name of the operator that made it; empty for a job with a step of its own.
        arguments: what its author gave, by argument.
        inputs: how each input is read, with what it takes from the job's parameters.
        lookups: key and columns of each lookup.
        contents: fingerprints of other contents that it depends on.
        key, key_groups, hash: by what, and how, state is divided.
        events: columns of events.
        state, tables: what it stores.
        code: the functions that it was given, by label.
    """

    operator: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    inputs: dict[str, dict[str, Any]]
    lookups: dict[str, Any] = Field(default_factory=dict)
    contents: dict[str, str] = Field(default_factory=dict)
    key: tuple[str, ...]
    key_groups: int
    hash: str
    events: dict[str, str]
    state: StateDeclaration
    tables: dict[str, TableDeclaration]
    code: dict[str, FunctionCode] = Field(default_factory=dict)


def declaration_of(job: KeyedJob) -> Declaration:
    """Return what a job declares.

    Raises:
        Misconfigured: an expression has a value that cannot be written down.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> declared = declaration_of(RIDE_SUMMARIES)
        >>> declared.operator, declared.arguments["gap"]["after"]
        ('sessions', {'$': 'duration', 'of': '30m'})
    """
    forms = Forms()
    arguments = _of_operator(job, forms) if job.operator else _of_step(job, forms)
    code = {label: code_of(function) for label, function in forms.functions.items()}
    return Declaration(
        operator=job.operator.name if job.operator else "",
        arguments=arguments,
        inputs={name: _as_read(input_) for name, input_ in job.inputs.items()},
        lookups={name: forms.of(name, lookup) for name, lookup in job.lookups.items()},
        contents=dict(job.contents),
        key=job.key,
        key_groups=job.key_groups,
        hash=HASH,
        events=columns_form(job.columns),
        state=StateDeclaration(
            columns=columns_form(job.state.schema),
            version=job.state.version,
            aggregates=job.state.aggregates.columns if job.state.aggregates else {},
        ),
        tables={
            table.name: TableDeclaration(mode=table.mode, key=table.key, columns=columns_form(table.schema))
            for table in job.tables
        },
        code={
            label: FunctionCode(digest=function_code.digest, parts=dict(function_code.parts))
            for label, function_code in code.items()
        },
    )


def _of_operator(job: KeyedJob, forms: Forms) -> dict[str, Form]:
    assert job.operator is not None  # noqa: S101 - the caller has looked
    hints = job.operator.hints
    arguments = {name: argument for name, argument in job.operator.arguments.items() if name not in _SETTINGS_OF_JOBS}
    return {name: forms.of(name, value, hints.get(name)) for name, value in arguments.items()}


def _of_step(job: KeyedJob, forms: Forms) -> dict[str, Form]:
    own = {"events": job.state.events, "one_per_key": job.state.one_per_key}
    return {
        "inputs": {name: forms.input(name, input_) for name, input_ in job.inputs.items()},
        "state": {name: forms.of(f"state.{name}", value) for name, value in own.items()},
        "step": forms.of("step", job.step),
        "tables": {
            table.name: {"events": forms.of(f"{table.name}.events", table.events), "changes": table.changes}
            for table in job.own_tables
        },
    }


def _as_read(input_: Input) -> dict[str, Form]:
    stream, silence = input_.stream, input_.idle_timeout
    return {
        "table": input_.table,
        "at": f"{input_.event_time} from {input_.time_from}" if input_.time_from else input_.event_time,
        "delay": Forms().of("delay", input_.watermark_delay),
        "idle_timeout": Forms().of("idle_timeout", silence),
        "goes_by_arrival": isinstance(stream, Stream) and stream.goes_by_arrival,
    }
