"""Sensors on sources of new data: whatever is new starts one run.

A source is polled with the cursor of the last tick and decides, by itself and without side effects, whether there is
anything to run on. Files are such a source (`FileSource`); a topic's offsets fit as well, with one offset a partition
as the cursor.

The cursor only says when to start: what was read is the business of ingest, which never reads a file twice. A cursor
that is lost or reset costs a run that finds nothing new, and no more.
"""

import getpass
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import dagster as dg

from assets.streams import landing_key
from spark_jobs.errors import KeyfoldError
from spark_jobs.lakehouse import Lakehouse
from spark_jobs.landing import SETTLE, Look, look
from spark_jobs.streams import Stream

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_NAMES_SHOWN = 10


@dataclass(frozen=True)
class Decision:
    """What a tick found.

    Attributes:
        cursor: to go on from, after a run was asked for.
        new: how much is new, in the source's own unit; a run starts where it is not 0.
        reason: why no run starts, for people.
        warnings: what is wrong with a part of the source while the rest goes on.
        metadata: of what is new, for the external asset that stands for the source.
    """

    cursor: str | None
    new: int = 0
    reason: str = ""
    warnings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Source(Protocol):
    """Where new data comes from."""

    def poll(self, cursor: str | None) -> Decision:
        """Decide what to do; changes nothing, so that a tick that fails can be had again.

        Args:
            cursor: of the last decision that started a run, None before the first. Keep it small: it is a database row.

        Raises:
            KeyfoldError: somebody has set a cursor that is none.
        """
        ...


@dataclass(frozen=True)
class FileSource:
    """Files in a landing folder.

    Attributes:
        folder: the landing folder, which need not be there yet.
        settle: how long a file must have stayed as it is to count as whole.
        done_marker: whether a file counts as whole by its marker instead.
    """

    folder: Path
    settle: timedelta = SETTLE
    done_marker: bool = False

    def poll(self, cursor: str | None) -> Decision:
        """Look at the folder and decide."""
        now = time.time_ns()
        try:
            found = look(self.folder, done_marker=self.done_marker)
        except FileNotFoundError:
            return Decision(cursor, reason=f"the landing folder {self.folder} is not there yet")
        except OSError as error:
            return Decision(
                cursor,
                reason=f"the landing folder {self.folder} cannot be read ({error.strerror}); it must be a folder that "
                f"{getpass.getuser()}, who runs Dagster, may list and enter",
            )
        return decide(found, cursor, now, folder=self.folder, settle=self.settle)


def decide(found: Look, cursor: str | None, now: int, *, folder: Path, settle: timedelta = SETTLE) -> Decision:
    """Which files are new since the cursor.

    The cursor is one number, the newest change time taken so far, however many files there are. A file that is not
    whole yet is never behind it: settled files are older than unsettled ones by definition, and a marker that comes
    late counts with its own time. So does a file that comes late with an old modification time.

    Args:
        found: all that is in the folder.
        cursor: of the last decision, None at first.
        now: nanoseconds since 1970, before the folder was looked at.
        folder: for the texts.
        settle: how long a file without a marker must have stayed as it is.

    Raises:
        KeyfoldError: the cursor is no number.
    """
    taken = _taken(cursor)
    later = [file for file in found.files if file.changed_at > taken or file.marked is False]
    new = [file for file in later if file.is_whole(now, settle)]
    warnings = tuple(f"the folder {path} cannot be read; its files wait" for path in found.unreadable)
    if not new:
        return Decision(cursor, reason=_nothing(folder, found, len(later)), warnings=warnings)
    newest = max(file.changed_at for file in new)
    return Decision(
        str(newest),
        new=len(new),
        warnings=warnings,
        metadata={
            "dagster/uri": folder.as_uri(),
            "new_files": len(new),
            "new_bytes": sum(file.size for file in new),
            "files_not_whole": len(later) - len(new),
            "newest": dg.MetadataValue.timestamp(newest / 1e9),
            "first_names": dg.MetadataValue.json([os.path.relpath(file.path, folder) for file in new[:_NAMES_SHOWN]]),
        },
    )


def landing_sensor(stream: Stream, job: str, settle: timedelta = SETTLE) -> dg.SensorDefinition:
    """A sensor that starts a job when files of a stream have landed, however many, in one run."""

    def source(lakehouse: Lakehouse) -> Source:
        return FileSource(lakehouse.landing(stream.name), settle, stream.done_marker)

    return new_data_sensor(f"{stream.name}_landed", job, landing_key(stream.name), source)


def new_data_sensor(
    name: str, job: str, asset: dg.AssetKey, source: Callable[[Lakehouse], Source]
) -> dg.SensorDefinition:
    """A sensor that starts a job when a source has new data.

    While a run of the job waits or runs it holds back, so that runs never pile up behind a slow one; what comes
    meanwhile goes into the next. Stopped by default: opening the pages must start no Spark on anybody's machine.

    Args:
        name: of the sensor.
        job: the job that reads the source.
        asset: the external asset that stands for the source; what is new is reported on it.
        source: makes the source.
    """

    @dg.sensor(
        name=name,
        job_name=job,
        minimum_interval_seconds=5,  # as often as the daemon looks: a tick lists one folder
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Starts `{job}` when there is new data in {asset.to_user_string()}.",
    )
    def new_data(
        context: dg.SensorEvaluationContext, lakehouse: dg.ResourceParam[Lakehouse]
    ) -> dg.SensorResult | dg.SkipReason:
        if waiting := unfinished_run(context.instance, job):
            return dg.SkipReason(f"run {waiting} of {job} is not over; what has come since goes into the next")
        decision = source(lakehouse).poll(context.cursor)
        for warning in decision.warnings:
            context.log.warning(warning)
        if not decision.new:
            return dg.SkipReason("; ".join((decision.reason, *decision.warnings)))
        # No run key: it would de-duplicate for ever, and a cursor may be reset.
        return dg.SensorResult(
            run_requests=[dg.RunRequest(tags={"keyfold/new": str(decision.new)})],
            asset_events=[dg.AssetMaterialization(asset, metadata=decision.metadata)],
            cursor=decision.cursor,
        )

    return new_data


def unfinished_run(instance: dg.DagsterInstance, job: str) -> str | None:
    """The id of a run of a job that waits or runs, None where there is none."""
    records = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_UNFINISHED), limit=1)
    return records[0].dagster_run.run_id if records else None


def _taken(cursor: str | None) -> int:
    try:
        return int(cursor or 0)
    except ValueError:
        raise KeyfoldError(
            f"the sensor's cursor {cursor!r} is no time in nanoseconds; reset it to nothing: files that were read are "
            "not read again"
        ) from None


def _nothing(folder: Path, found: Look, not_whole: int) -> str:
    if not found.files:
        return f"no files in {folder}"
    if not not_whole:
        return f"no new files in {folder}"
    awaited = (
        "without their done-marker" if any(file.marked is False for file in found.files) else "still being written"
    )
    return f"no new files in {folder} ({not_whole} {awaited})"
