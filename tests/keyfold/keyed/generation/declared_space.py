"""All arguments of all that declares a job, each with another value, and the record of a generation of a job."""

from keyfold import KeyedJob
from keyfold.keyed.generation.declaration import declaration_of
from keyfold.keyed.generation.declaration_changes import code_differences, compare
from keyfold.keyed.generation.generation_record import GenerationRecord
from tests.keyfold.keyed.generation.declared_operators import OPERATORS
from tests.keyfold.keyed.generation.declared_parts import PARTS

DECLARED = [*OPERATORS, *PARTS]
# Stand for others: those of `KeyedJob`, and all that are derived.
_STAND_FOR_OTHERS = {("settings",), ("derive", "columns")}
ARGUMENTS = [
    (declared, argument)
    for declared in DECLARED
    for argument in declared.changes
    if not {(argument,), (declared.name, argument)} & _STAND_FOR_OTHERS
]


def record_of(job: KeyedJob) -> GenerationRecord:
    """The record of a generation of a job, as it is read again."""
    record = GenerationRecord(
        identity="", job=job.name, parameters=dict(job.parameters), declaration=declaration_of(job)
    )
    return GenerationRecord.model_validate_json(record.model_dump_json())


def differing(before: KeyedJob, after: KeyedJob) -> list[str]:
    """What two jobs declare otherwise, in words."""
    record = record_of(before)
    comparison = compare(record, after)
    differences = (*comparison.settings, *comparison.effects)
    return [*map(str, (*differences, *code_differences(record.declaration.code, comparison.code)))]
