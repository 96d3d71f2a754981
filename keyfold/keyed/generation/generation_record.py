"""The record of a generation: its identity, its tables, and what its job declared when it was created.

HOME/jobs/<job>/<generation>/generation.json   written after the generation's tables, and again if all open rows were computed by another declaration
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import Field, ValidationError

from keyfold.keyed.generation.declaration import Declaration, StateDeclaration
from keyfold.keyed.rows.key_share import KeyShare
from keyfold.storage.place import Place
from keyfold.storage.storage_path import DamagedError
from keyfold.validation import Record

RECORD = "generation.json"
FORMAT = 13
"""Version of the files of a generation. Since version 11, its plans and commit records have a digest."""


@dataclass(frozen=True)
class Origin:
    """The origin of a generation's first state.

    Attributes:
        how: the tool that made the state.
        what: the source that it was made of.
        events_skipped: rows of the event table before the generation's first position. Its tables and state need not have them.
        events_seeded: events in its first state that are not among the rows of the event table that it counts.
        counts_inputs: whether its journal goes on with the counts of each input of the generation that it was made of.
    """

    how: str
    what: str
    events_skipped: int = 0
    events_seeded: int = 0
    counts_inputs: bool = False


_NOTHING = Declaration(
    inputs={}, key=(), key_groups=0, hash="", events={}, state=StateDeclaration(columns={}, version=0), tables={}
)


class GenerationRecord(Record):
    """The record of a generation.

    Attributes:
        format: version of the files of the generation (`FORMAT`).
        identity: its name in Delta's transactions. Not the folder's name: after a restored backup, a new generation of that name
            would find its batches committed.
        job: the job's name.
        created_at: when it was created (UTC).
        origin: the origin of its first state; None if it started without state.
        branch: the name of the branch that it is, or was before it was promoted; empty for any other.
        span: the event times that a branch reads: from the first, before the second; None where it is open.
        share: the keys whose events a branch reads; None for all.
        partitions: number of state partitions. Recorded, since a later session may be configured differently.
        splits: number of splits of a batch: a runner counts batch * splits + split.
        parameters: the parameters of the job.
        declaration: what the job declared.
        table_ids: Delta's ids of its tables, by name.
        input_ids: what identifies its input tables, by name.
    """

    format: int = FORMAT
    identity: str
    job: str
    created_at: datetime = datetime(1, 1, 1, tzinfo=UTC)
    origin: Origin | None = None
    branch: str = ""
    span: tuple[datetime | None, datetime | None] = (None, None)
    share: KeyShare | None = None
    partitions: int = 0
    splits: int = 0
    parameters: dict[str, Any] = Field(default_factory=dict)
    declaration: Declaration = _NOTHING
    table_ids: dict[str, str] = Field(default_factory=dict)
    input_ids: dict[str, str] = Field(default_factory=dict)


def read_record(file: Place, remedy: str = "") -> GenerationRecord:
    """Read the record of a generation; of one that another version of Keyfold wrote, what all versions have.

    Raises:
        DamagedError: the file is no such record.
        FileNotFoundError: there is no such file.
    """
    content = file.read_json(remedy)
    fields = content if content.get("format") == FORMAT else _of_every_version(content)
    try:
        return GenerationRecord.model_validate(fields)
    except ValidationError as error:
        fault = error.errors()[0]
        path = ".".join(map(str, fault["loc"]))
        raise DamagedError(
            f"{file} is damaged: {path}: {fault['msg']}; restore it from a backup{f', or {remedy}' if remedy else ''}"
        ) from None


def _of_every_version(content: dict[str, Any]) -> dict[str, Any]:
    names = ("format", "identity", "job", "branch", "span", "table_ids", "input_ids")
    return {"identity": "", "job": "", "format": 0} | {name: content[name] for name in names if content.get(name)}
