"""Compare a job with the settings that its generation began with. A job that differs is refused."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from keyfold.errors import IncompatibleState
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.inputs import Input
from keyfold.keyed.rows.hashing import HASH


def check_generation(generation: Generation, job: KeyedJob) -> None:
    """Check that a job can continue a generation.

    Raises:
        KeyfoldError: a fixed setting differs; names it, and the remedy.
    """
    for setting, value in fixed_settings(job).items():
        born = generation.record["fixed"].get(setting)
        # Filter the recorded parameters too: one may have become free since.
        if setting == "parameters":
            born = _bound(born, job)
        if born != value:
            raise IncompatibleState(
                f"job {job.name}, {generation.name} was born with {setting} {_changed(born, value)} and now runs with "
                f"{_changed(value, born)}; set it back, ask what the change takes (`keyfold plan {job.name}`), or start a new "
                "generation with --full-refresh"
            )


def fixed_settings(job: KeyedJob) -> dict[str, Any]:
    """Return the settings that must not change in a generation: those that state and rows depend on."""
    return {
        # First, since other settings may follow from it. None if empty, as in older records, which lack it.
        "contents": dict(job.contents) or None,
        "inputs": {name: _input(one, len(job.inputs)) for name, one in job.inputs.items()},
        "lookups": {name: [list(one.key), _columns(one.columns)] for name, one in job.lookups.items()} or None,
        "key": list(job.key),
        "key_groups": job.key_groups,
        "hash": HASH,
        "schema_version": job.state.version,
        "columns of events": _columns(job.columns),
        "columns of state": _columns(job.state.schema),
        "tables": {table.name: [table.mode, list(table.key)] for table in job.tables},
        **{f"columns of {table.name}": _columns(table.schema) for table in job.tables},
        "parameters": _bound(job.parameters, job),
    }


def _input(one: Input, inputs: int) -> dict[str, Any]:
    """Return the fixed settings of an input. Its idle timeout is not one: no row of state depends on it."""
    return {
        "stream": one.stream.name,
        "at": f"{one.event_time} from {one.time_from}" if one.time_from else one.event_time,
        "delay": one.watermark_delay.total_seconds(),
        "final_at": str(one.is_late_at),
        "derive": {name: str(how) for name, how in {**one.derived, **one.computed}.items()},
        "explode": str(one.exploded),
        "where": str(one.condition),
        "combines": one.combine is not None,
        # Those of one input are the columns of events.
        **({"columns": _columns(one.schema)} if inputs > 1 else {}),
        "conserved": one.conserved,
    }


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}


def _bound(parameters: Mapping[str, Any], job: KeyedJob) -> dict[str, Any]:
    """Return the parameters without those that each run may choose."""
    return {name: value for name, value in parameters.items() if name not in job.free_parameters}


def _changed(value: Any, other: Any) -> str:
    """Return a setting as text; of two mappings, only the entries that differ."""
    return str(_difference(value, other))


def _difference(value: Any, other: Any) -> Any:
    if not (isinstance(value, dict) and isinstance(other, dict)):
        return value
    differ = [name for name in sorted({*value, *other}) if value.get(name) != other.get(name)]
    return {name: _difference(value.get(name), other.get(name)) for name in differ}
