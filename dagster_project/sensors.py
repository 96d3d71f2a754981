"""Sensors on landing folders: new files start one run."""

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from assets.streams import landing_key
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.streams import Stream

SETTLE = timedelta(seconds=5)
"""A file that changed less than this ago may still be being written: it waits for the next tick."""

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class LandedFile:
    """A file in a landing folder.

    Attributes:
        path: where it is.
        size: bytes.
        changed_at: inode change time in nanoseconds. A modification time would not do: `cp -p`, `mv` and rsync keep
            old ones, and a sensor that goes by them never sees such files.
    """

    path: str
    size: int
    changed_at: int


@dataclass(frozen=True)
class Decision:
    """What a tick found: the files that are new, those still being written, and the cursor to go on from."""

    new: tuple[LandedFile, ...]
    unsettled: int
    cursor: str


def decide(files: Iterable[LandedFile], cursor: str | None, now: int, settle: timedelta = SETTLE) -> Decision:
    """Which files are new since the cursor.

    The cursor is one number, the newest change time taken so far, however many files there are. Unsettled files are
    newer than settled ones by definition, so they are never behind it.

    Args:
        files: all that are in the folder.
        cursor: of the last tick, None at first.
        now: nanoseconds since 1970.
        settle: how long a file must have stayed as it is.
    """
    taken, until = int(cursor or 0), now - int(settle.total_seconds() * 1e9)
    later = [file for file in files if file.changed_at > taken]
    new = tuple(sorted((file for file in later if file.changed_at <= until), key=lambda file: file.path))
    newest = max((file.changed_at for file in new), default=taken)
    return Decision(new, len(later) - len(new), str(newest))


def landed_files(folder: Path) -> Iterator[LandedFile]:
    """The files below a folder that ingest would read: no name on the way begins with a dot or an underscore."""
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            if name.startswith((".", "_")):
                continue
            path = os.path.join(parent, name)
            try:
                found = os.stat(path)
            except FileNotFoundError:  # renamed or removed since it was listed
                continue
            yield LandedFile(path, found.st_size, found.st_ctime_ns)


def landing_sensor(stream: Stream, job: str, settle: timedelta = SETTLE) -> dg.SensorDefinition:
    """A sensor that starts a job when files of a stream have landed.

    While a run of the job waits or runs it holds back, so that runs never pile up behind a slow one; what lands
    meanwhile goes into the next. Stopped by default: opening the pages must start no Spark on anybody's machine.
    """

    @dg.sensor(
        name=f"{stream.name}_landed",
        job_name=job,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Starts `{job}` when new files are in the landing folder of {stream.name}.",
    )
    def landed(
        context: dg.SensorEvaluationContext, lakehouse: dg.ResourceParam[Lakehouse]
    ) -> dg.SensorResult | dg.SkipReason:
        folder = lakehouse.landing(stream.name)
        if not folder.is_dir():
            return dg.SkipReason(f"the landing folder {folder} is not there yet")
        if waiting := unfinished_run(context.instance, job):
            return dg.SkipReason(f"run {waiting} of {job} is not over; what has landed since goes into the next")
        decision = decide(landed_files(folder), context.cursor, time.time_ns(), settle)
        if not decision.new:
            writing = f" ({decision.unsettled} still being written)" if decision.unsettled else ""
            return dg.SkipReason(f"no new files in {folder}{writing}")
        # No run key: it would de-duplicate for ever, and a cursor may be reset.
        return dg.SensorResult(
            run_requests=[dg.RunRequest(tags={"keyfold/new_files": str(len(decision.new))})],
            asset_events=[dg.AssetMaterialization(landing_key(stream.name), metadata=_metadata(folder, decision))],
            cursor=decision.cursor,
        )

    return landed


def unfinished_run(instance: dg.DagsterInstance, job: str) -> str | None:
    """The id of a run of a job that waits or runs, None where there is none."""
    records = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_UNFINISHED), limit=1)
    return records[0].dagster_run.run_id if records else None


def _metadata(folder: Path, decision: Decision) -> dict[str, Any]:
    newest = max(file.changed_at for file in decision.new)
    return {
        "dagster/uri": folder.as_uri(),
        "new_files": len(decision.new),
        "new_bytes": sum(file.size for file in decision.new),
        "newest": dg.MetadataValue.timestamp(newest / 1e9),
        "first_names": dg.MetadataValue.json([os.path.relpath(file.path, folder) for file in decision.new[:10]]),
    }
