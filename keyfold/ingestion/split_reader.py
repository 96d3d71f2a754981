"""Read a split's inputs and validate their rows: in a worker, or in this process."""

from datetime import datetime

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.ingestion.child import ChildEndedError
from keyfold.ingestion.ingest_records import AdmittedFile
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings
from keyfold.ingestion.kafka.message_columns import message_columns
from keyfold.ingestion.kafka.messages import Messages, TopicReader
from keyfold.ingestion.kafka.offsets import OffsetRange
from keyfold.ingestion.listing import is_as_admitted, refusal
from keyfold.ingestion.parsing import UnreadableFileError, parse_file_safely, parse_messages
from keyfold.ingestion.split import Split, SplitResult, TopicAccess
from keyfold.ingestion.split_writer import SplitWriter
from keyfold.privacy import errors_without_values
from keyfold.storage.place import Place
from keyfold.times import to_times


def read_split(split: Split) -> SplitResult:
    """Read a split's inputs, and write their rows as data files."""
    with errors_without_values(f"ingest of {split.stream.name}", split.stream.private):
        return _read_split(split)


def _read_split(split: Split) -> SplitResult:
    writer, deferred = SplitWriter(split), list[str]()
    try:
        if split.topic is not None:
            _read_topic(split, split.topic, writer)
        for place, file in split.files:
            rows_of_file = _read(split, place, file)
            if rows_of_file is None:
                deferred.append(file.path)
                continue
            writer.add(rows_of_file)
            if writer.is_large:
                writer.write()
        writer.write()
    # Faults are returned: Spark would repeat a task that raises, and bury the reason.
    except (OSError, KeyfoldError) as error:
        writer.discard()
        return SplitResult(failed=OSError(str(error)) if isinstance(error, OSError) else error)
    writer.result.deferred = deferred
    return writer.result


def _read_topic(split: Split, access: TopicAccess, writer: SplitWriter) -> None:
    """Read the split's ranges of offsets."""
    # The messages of a deleted topic are gone too.
    if access.is_gone:
        for _, lost in split.ranges:
            writer.reject_gap(access, lost)
        return
    settings = KafkaSettings.of_worker(access.bootstrap, access.settings)
    columns = message_columns(split.stream.raw_schema.names)
    longest = split.stream.max_line_bytes
    with TopicReader(settings, access.name, columns, longest=longest, record_gaps=access.record_gaps) as reader:
        for place, offsets in split.ranges:
            for part in reader.read(offsets):
                if isinstance(part, OffsetRange):
                    writer.reject_gap(access, part)
                    continue
                rows = parse_messages(
                    split.stream,
                    part.values,
                    part.offsets,
                    _arrivals(split, access, part),
                    beside=part.columns,
                    faults=part.faults,
                    path=access.name,
                    oldest=split.oldest,
                )
                writer.take(rows, place, access.partition_name(part.partition), first_line=offsets.start)
                if writer.is_large:
                    writer.write()


def _arrivals(split: Split, access: TopicAccess, messages: Messages) -> datetime | pl.Series:
    """Return the arrival of messages: by the broker's clock if it set the time, but between the previous plan and this one."""
    if messages.appended is None:
        return split.arrived
    arrived = to_times(messages.appended)
    if access.arrived_after is not None:
        arrived = arrived.clip(lower_bound=access.arrived_after)
    return arrived.clip(upper_bound=split.arrived)


def _read(split: Split, place: int, file: AdmittedFile) -> SplitWriter | None:
    """Return the rows of a file; None if it has changed since it was planned."""
    path = split.landing / file.path
    if refused := file.refused or refusal(split.landing, file.path):
        taken = _rejected(split, path, UnreadableFileError(refused))
    elif not _is_as_planned(split, path, file):
        return None
    else:
        taken = _parsed(split, place, path)
        # Check again at the end: a file that changed while it was read is discarded, and read by a later run.
        if not _is_as_planned(split, path, file):
            taken.discard()
            return None
    taken.count_file()
    return taken


def _parsed(split: Split, place: int, path: Place, attempts: int = 2) -> SplitWriter:
    # With its own writer, so that its rows can be discarded without those of other files.
    taken = SplitWriter(split)
    arguments = (split.stream, path, split.arrived, split.landing, split.oldest, split.threads)
    try:
        for rows in parse_file_safely(*arguments):
            taken.take(rows, place, str(path))
            # Written separately from other files: if the last line turns out to be broken, all of the file is discarded.
            if taken.is_large:
                taken.write()
    except BaseException as error:
        taken.discard()
        if isinstance(error, ChildEndedError):
            if attempts > 1:
                return _parsed(split, place, path, attempts - 1)
            return _rejected(split, path, UnreadableFileError(f"the file cannot be read: its reader {error}"))
        if isinstance(error, UnreadableFileError):
            return _rejected(split, path, error)
        raise
    return taken


def _rejected(split: Split, path: Place, error: UnreadableFileError) -> SplitWriter:
    taken = SplitWriter(split)
    taken.reject_file(str(path), error)
    return taken


def _is_as_planned(split: Split, path: Place, file: AdmittedFile) -> bool:
    return is_as_admitted(split.landing, path, file.size, (file.modified_at, file.changed_at), file.fingerprint)
