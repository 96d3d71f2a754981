"""Read a split's inputs and validate their rows, in a Spark worker, or in the driver for small batches."""

from datetime import datetime

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.ingest_records import AdmittedFile
from keyfold.ingestion.parsing import UnreadableFileError, parse_shared_file, parse_shared_messages
from keyfold.ingestion.sources.files import is_as_admitted, refusal
from keyfold.ingestion.sources.kafka.messages import Messages, TopicReader, message_columns
from keyfold.ingestion.sources.kafka.offsets import OffsetRange
from keyfold.ingestion.sources.kafka.settings import KafkaSettings
from keyfold.ingestion.split import Split, SplitResult, TopicAccess
from keyfold.ingestion.split_writer import SplitWriters
from keyfold.privacy import errors_without_values
from keyfold.storage.place import Place
from keyfold.times import to_times


def read_split(split: Split) -> SplitResult:
    """Read a split's inputs, and write their rows as data files."""
    private = [name for one in split.streams for name in one.private]
    with errors_without_values(f"ingest of {', '.join(one.name for one in split.streams)}", private):
        return _read_split(split)


def _read_split(split: Split) -> SplitResult:
    result = SplitResult()
    writers = SplitWriters(split)
    try:
        if split.topic is not None:
            _read_topic(split, split.topic, writers)
        for place, file in split.files:
            rows_of_file = _read(split, place, file)
            if rows_of_file is None:
                result.deferred.append(file.path)
                continue
            writers.add(rows_of_file)
            if writers.is_large:
                writers.write()
        writers.write()
    # Faults are returned: Spark would repeat a task that raises, and bury the reason.
    except OSError as error:
        writers.discard()
        result.fault = str(error)
        return result
    except DamagedArrayError as error:
        writers.discard()
        result.damaged = str(error)
        return result
    except KeyfoldError as error:
        writers.discard()
        result.refused = str(error)
        return result
    result.written = writers.results()
    return result


def _read_topic(split: Split, access: TopicAccess, writers: SplitWriters) -> None:
    """Read the split's ranges of offsets."""
    # The messages of a deleted topic are gone too.
    if access.is_gone:
        for _, lost in split.ranges:
            writers.reject_gap(access, lost)
        return
    settings = KafkaSettings.of_worker(access.bootstrap, access.settings)
    raw = [name for one in split.streams for name in (*one.raw_schema.names, *one.condition_columns)]
    columns = message_columns(raw)
    with TopicReader(settings, access.name, columns, record_gaps=access.record_gaps) as reader:
        for place, offsets in split.ranges:
            for found in reader.read(offsets):
                if isinstance(found, OffsetRange):
                    writers.reject_gap(access, found)
                    continue
                parsed = parse_shared_messages(
                    split.streams,
                    split.wanted,
                    found.values,
                    found.offsets,
                    _arrivals(split, access, found),
                    beside=found.columns,
                    faults=found.faults,
                    path=access.name,
                )
                for stream, rows in parsed:
                    writers.take(stream, rows, place, access.where(found.partition), first_line=offsets.start)
                if writers.is_large:
                    writers.write()


def _arrivals(split: Split, access: TopicAccess, messages: Messages) -> datetime | pl.Series:
    """Return the arrival of messages: by the broker's clock if it set the time, but between the previous plan and this one."""
    if messages.appended is None:
        return split.arrived
    arrived = to_times(messages.appended)
    if access.arrived_after is not None:
        arrived = arrived.clip(lower_bound=access.arrived_after)
    return arrived.clip(upper_bound=split.arrived)


def _read(split: Split, place: int, file: AdmittedFile) -> SplitWriters | None:
    """Return the rows of a file; None if it has changed since it was planned."""
    # With its own writers, so that its rows can be discarded without those of other files.
    path, taken = split.landing / file.path, SplitWriters(split)
    refused = file.refused or refusal(split.landing, file.path)
    if refused:
        taken.reject_file(str(path), refused)
        taken.count_file()
        return taken
    if not _is_as_planned(path, file):
        return None
    try:
        for stream, rows in parse_shared_file(split.streams, split.wanted, path, split.arrived, split.landing):
            taken.take(stream, rows, place, str(path))
            # Written separately from other files: if the last line turns out to be broken, all of the file is discarded.
            if taken.is_large:
                taken.write()
    except UnreadableFileError as error:
        taken.discard()
        taken = SplitWriters(split)
        taken.reject_file(str(path), str(error))
    except BaseException:
        taken.discard()
        raise
    # Check again at the end: a file that changed while it was read is discarded, and read by a later run.
    if not _is_as_planned(path, file):
        taken.discard()
        return None
    taken.count_file()
    return taken


def _is_as_planned(path: Place, file: AdmittedFile) -> bool:
    return is_as_admitted(path, file.size, (file.modified_at, file.changed_at), file.fingerprint)
