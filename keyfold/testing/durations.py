"""Find the durations that a job declares, and the silences around them, at which its answers may turn.

Most faults of a stateful job show where two events of a key are exactly as far apart as one of its durations, or a microsecond
more or less. So tests and `keyfold verify` draw the times of events from these.
"""

import ast
import dataclasses
import inspect
import json
import random
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import polars as pl

from keyfold.keyed.job.contract import KeyedJob
from keyfold.stream import Stream
from keyfold.times import LONGEST, parsed_duration, shifted

TICK = timedelta(microseconds=1)
"""The least difference of two times."""


def durations_of(job: KeyedJob) -> tuple[timedelta, ...]:
    """Return the durations that a job declares, the shortest first, each once; a negative one by its length.

    They are found in the arguments of its operator, in its parameters, in its inputs (delays, idle timeouts, `final_at` and
    other expressions), and in a hand-written step: in what it closes over, in the constants of its module that it names, and
    in calls of `timedelta` in its text.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> [str(duration) for duration in durations_of(RIDE_SUMMARIES)]
        ['0:10:00', '0:30:00', '1:00:00', '2:00:00', '1 day, 0:00:00']
    """
    walk = _Walk()
    walk.into(job.model(**job.parameters) if job.model else job.parameters)
    for declared in (job.inputs, job.step, job.state, job.tables):
        walk.into(declared)
    return tuple(sorted(walk.durations))


def silences_of(job: KeyedJob) -> tuple[timedelta, ...]:
    """Return silences around each duration of a job: a microsecond below it, the duration, a microsecond above, ten times of it.

    A duration also stands with the delay of each input, by which the watermark comes later.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> timedelta(minutes=30) - TICK in silences_of(RIDE_SUMMARIES)
        True
    """
    durations = set(durations_of(job))
    delays = {input_.watermark_delay for input_ in job.inputs.values()}
    around = {
        silence
        for duration in durations | {duration + delay for duration in durations for delay in delays}
        for silence in (duration - TICK, duration, duration + TICK, min(10 * duration, LONGEST))
    }
    return tuple(sorted(silence for silence in around if silence > timedelta(0)))


def times_apart(silences: Sequence[timedelta], chance: random.Random, count: int, start: datetime) -> list[datetime]:
    """Return times from `start` on, each of which follows another one at once, soon, or after one of some silences.

    So several times are as far apart as a duration, also such that others lie between them; none is after the year 9999.

    Example:
        >>> from datetime import UTC
        >>> start, minute = datetime(2026, 1, 1, tzinfo=UTC), timedelta(minutes=1)
        >>> {time - start for time in times_apart([minute], random.Random(1), 3, start)} <= {number * minute for number in range(4)}
        True
    """
    times = [start]
    steps = [timedelta(0), *silences, *silences]
    while len(times) < count:
        # Mostly after the newest: otherwise silences would be filled.
        since = times[-1] if chance.random() < 0.7 else chance.choice(times)
        times.append(shifted(since, chance.choice(steps)))
    return times


_NOT_ENTERED = {"polars", "pyarrow", "numpy", "pydantic", "pydantic_core", *sys.stdlib_module_names} - {"__main__"}
"""Packages whose objects hold no durations of a job."""


class _Walk:
    """Collects the durations in values, in what they hold, and in the functions among them."""

    def __init__(self) -> None:
        self.durations: set[timedelta] = set()
        self._entered: dict[int, Any] = {}

    def into(self, value: Any) -> None:
        """Collect the durations in a value."""
        if isinstance(value, timedelta):
            self._add(value)
        elif isinstance(value, str):
            with suppress(ValueError):  # a number of days that is longer than any duration
                self._add(parsed_duration(value))
        elif id(value) not in self._entered:
            # Keep the value: the id of one that is gone may come again.
            self._entered[id(value)] = value
            for held in _held_by(value):
                self.into(held)

    def _add(self, duration: timedelta | None) -> None:
        if duration and abs(duration) <= LONGEST:
            self.durations.add(abs(duration))


def _held_by(value: Any) -> Iterable[Any]:
    """Return the values within a value."""
    for kind, held_by in _HELD_BY:
        if isinstance(value, kind):
            return held_by(value)
    return _in_object(value)


def _in_object(value: Any) -> Iterable[Any]:
    package = _package(type(value))
    if package in _NOT_ENTERED:
        return ()
    # The steps of operators have all in their fields; a hand-written one may also name constants in its methods.
    methods = (
        ()
        if package == "keyfold"
        else (member for member in vars(type(value)).values() if isinstance(member, FunctionType))
    )
    is_record = dataclasses.is_dataclass(value)
    fields = {field.name for field in dataclasses.fields(value)} if is_record else getattr(value, "__dict__", {})
    return *(getattr(value, name) for name in fields), *methods


def _in_function(function: FunctionType) -> Iterator[Any]:
    """Yield what a function closes over and its defaults; and, of one that a project wrote, the constants and functions it names."""
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # an empty cell, of a name that is not assigned yet
            yield cell.cell_contents
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    package = _package(function)
    if package != "keyfold" and package not in _NOT_ENTERED:
        for name in _names_in(function.__code__):
            named = function.__globals__.get(name)
            if not isinstance(named, FunctionType) or _package(named) == package:
                yield named
        yield from _in_text(function)


def _names_in(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names


def _in_text(function: FunctionType) -> Iterator[timedelta]:
    """Yield the durations that the text of a function writes as `timedelta(minutes=30)`."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # no text is there, or it is a part of a line
        return
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("timedelta"):
            with suppress(ValueError, TypeError, OverflowError):
                arguments = [ast.literal_eval(argument) for argument in call.args]
                named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
                yield timedelta(*arguments, **named)


def _in_expression(expression: pl.Expr) -> list[Any]:
    """Return the durations and texts that an expression holds."""
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError):  # it calls a Python function
        return []
    return [*_in_tree(tree)]


_UNITS = {"Nanoseconds": 1e-3, "Microseconds": 1, "Milliseconds": 1e3}


def _in_tree(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            if name == "Duration" and isinstance(value, list):
                amount, unit = value
                yield timedelta(microseconds=amount * _UNITS[unit])
            elif name == "String" and isinstance(value, str):
                yield value
            else:
                yield from _in_tree(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _in_tree(value)


def _package(value: Any) -> str:
    return (getattr(value, "__module__", None) or "").partition(".")[0]


_HELD_BY: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (pl.Expr, _in_expression),
    (Mapping, lambda mapping: mapping.values()),
    (list | tuple | set | frozenset, iter),
    (MethodType, lambda method: (method.__self__, method.__func__)),
    (partial, lambda call: (call.func, *call.args, *call.keywords.values())),
    (FunctionType, _in_function),
    # The durations of a stream are about its files, and not about the job.
    (type | Stream, lambda _: ()),
)
"""What is within a value, by its type; of others, their fields."""
