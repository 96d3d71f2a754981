"""What must not change while a generation lives; a job that differs is refused, with what differs and the remedy."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from keyfold.errors import IncompatibleState
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.several_inputs import Input
from keyfold.keyed.rows.hashing import HASH


def check_generation(generation: Generation, job: KeyedJob) -> None:
    """See that a job can go on where a generation stands.

    Raises:
        KeyfoldError: something that was fixed at its birth differs; says what, and names the remedy.
    """
    for setting, value in fixed(job).items():
        born = generation.record["fixed"].get(setting)
        # Of those born with, too: a parameter may have become free since.
        if setting == "parameters":
            born = _bound(born, job)
        if born != value:
            raise IncompatibleState(
                f"job {job.name}, {generation.name} was born with {setting} {_changed(born, value)} and now runs with "
                f"{_changed(value, born)}; set it back, ask what the change takes (`keyfold plan {job.name}`), or start a new "
                "generation with --full-refresh"
            )


def fixed(job: KeyedJob) -> dict[str, Any]:
    """All that must not change while a generation lives: whatever decides where state lies, what it says, or its rows."""
    return {
        # None without any, as of generations that were born before there were some. First, since other settings follow it.
        "contents": dict(job.contents) or None,
        # Of several inputs what each is, by name; None of a job with one stream, as before there were some.
        "stream": job.stream.name,
        "inputs": {name: _input(one) for name, one in job.inputs.items()} or None,
        "lookups": {name: [list(one.key), _columns(one.columns)] for name, one in job.lookups.items()} or None,
        "key": list(job.key),
        "key_groups": job.key_groups,
        "hash": HASH,
        "event_time": f"{job.event_time} from {job.time_from}" if job.time_from else job.event_time,
        "watermark_delay": job.watermark_delay.total_seconds(),
        "derived": {name: str(how) for name, how in job.derived.items()},
        "keys_of": None if job.keys_of is None else str(job.keys_of),
        "combines": job.combine is not None,
        "step_decides_late": job.step_decides_late,
        "schema_version": job.schema_version,
        "columns of events": _columns(job.events),
        "columns of state": _columns(job.state),
        "tables": {table.name: [table.mode, list(table.key)] for table in job.tables},
        **{f"columns of {table.name}": _columns(table.schema) for table in job.tables},
        "parameters": _bound(job.parameters, job),
    }


def _input(one: Input) -> dict[str, Any]:
    """Not its idle timeout: no row of state depends on it."""
    return {
        "stream": one.stream.name,
        "event_time": f"{one.event_time} from {one.time_from}" if one.time_from else one.event_time,
        "watermark_delay": one.watermark_delay.total_seconds(),
        "derived": {name: str(how) for name, how in one.derived.items()},
        "columns": _columns(one.events),
        "conserved": one.conserved,
    }


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}


def _bound(parameters: Mapping[str, Any], job: KeyedJob) -> dict[str, Any]:
    """The parameters that are the generation's, without those that each run is free to choose."""
    return {name: value for name, value in parameters.items() if name not in job.free_parameters}


def _changed(value: Any, other: Any) -> str:
    """Of two sets of settings, show only what differs."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {name: value.get(name) for name in sorted({*value, *other}) if value.get(name) != other.get(name)}
    return str(value)
