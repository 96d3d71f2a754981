"""Generations of jobs as runs leave them, for tests of those who read them."""

from datetime import UTC, datetime

from keyfold.journal.clock import Reading
from keyfold.keyed.generation.batch_records import KeyedDone, KeyedPlan, PlannedClock, PlannedFile, TableInput
from keyfold.keyed.generation.generation_record import FORMAT, read_record
from keyfold.keyed.generation.generations import Generation
from keyfold.keyed.generation.live_record import Entry, changing_live
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.positions import Position

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def put_generation(
    lakehouse: Lakehouse, job: str, name: str = "generation-0001", *, live: bool = True, **record: object
) -> Generation:
    """A generation without a batch."""
    folder = lakehouse.job(job) / name
    (folder / "generation.json").write_json({"job": job, "identity": f"{job} {name}", "format": FORMAT, **record})
    if live:
        with changing_live(lakehouse) as entries:
            entries[job] = Entry(generation=name)
    return Generation(folder, read_record(folder / "generation.json"))


def put_done(generation: Generation, batch: int, **fields: object) -> KeyedDone:
    """A batch that is done."""
    job = generation.record.job
    given: dict[str, object] = {
        "batch": batch,
        "run": batch,
        "finished_at": NOW,
        "seconds": 1.0,
        "tables": {},
        "last_written": {},
        "last_files": {},
        "positions": {},
        "watermark": NOW,
        "rows": {job: 0},
        "total_rows": {job: 0},
        **fields,
    }
    done = KeyedDone.model_validate(given)
    generation.journal.write_done(done)
    return done


def plan_of(batch: int, table: str, version: int, *files: str, run: int | None = None, batches: int = 1) -> KeyedPlan:
    """A plan of a batch that reads files of a table."""
    return KeyedPlan(
        batch=batch,
        run=batch if run is None else run,
        batches=batches,
        planned_at=NOW,
        inputs=(
            TableInput(
                table=table,
                input=table.removeprefix("events."),
                position=Position(version=version, digest=""),
                files=tuple(PlannedFile(path=path, rows=1, bytes=1) for path in files),
            ),
        ),
        clock=PlannedClock(previous_watermark=NOW, watermark=NOW, processing_time=NOW),
        reading=Reading(wall=NOW, uptime=0, boot=""),
    )
