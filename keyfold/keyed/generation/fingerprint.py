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
        # None for a job with one stream, as in older records, which lack `inputs`.
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
        "where": None if job.where is None else str(job.where),
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
    """Return the fixed settings of an input. Its idle timeout is not one: no row of state depends on it."""
    return {
        "stream": one.stream.name,
        "event_time": f"{one.event_time} from {one.time_from}" if one.time_from else one.event_time,
        "watermark_delay": one.watermark_delay.total_seconds(),
        "derived": {name: str(how) for name, how in one.derived.items()},
        "columns": _columns(one.events),
        "conserved": one.conserved,
        # Only if there is a condition: older records lack the entry.
        **({} if one.where is None else {"where": str(one.where)}),
    }


def _columns(schema: pa.Schema) -> dict[str, str]:
    return {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}


def _bound(parameters: Mapping[str, Any], job: KeyedJob) -> dict[str, Any]:
    """Return the parameters without those that each run may choose."""
    return {name: value for name, value in parameters.items() if name not in job.free_parameters}


def _changed(value: Any, other: Any) -> str:
    """Return a setting as text; of two mappings, only the entries that differ."""
    if isinstance(value, dict) and isinstance(other, dict):
        value = {name: value.get(name) for name in sorted({*value, *other}) if value.get(name) != other.get(name)}
    return str(value)
