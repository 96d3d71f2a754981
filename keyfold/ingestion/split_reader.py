"""Reads a split's inputs and validates their rows, in a Spark worker, or in the driver where there is little to do."""

from datetime import datetime

import polars as pl

from keyfold.errors import KeyfoldError
from keyfold.ingestion.arrays import DamagedArrayError
from keyfold.ingestion.parsing import UnreadableFileError, parse_file, parse_messages
from keyfold.ingestion.records import AdmittedFile, IngestCounts
from keyfold.ingestion.sources.files import is_as_admitted, refusal
from keyfold.ingestion.sources.kafka.messages import Messages, TopicReader, message_columns
from keyfold.ingestion.sources.kafka.offsets import OffsetRange
from keyfold.ingestion.sources.kafka.settings import KafkaSettings
from keyfold.ingestion.split import Split, SplitResult, TopicAccess
from keyfold.ingestion.split_writer import SplitWriter
from keyfold.privacy import errors_without_values
from keyfold.storage.place import Place
from keyfold.times import to_times


def read_split(split: Split) -> SplitResult:
    """Read a split's inputs; runs in a Spark worker, or in the driver where there is little to do."""
    with errors_without_values(f"ingest of {split.stream.name}", split.stream.private):
        return _read_split(split)


def _read_split(split: Split) -> SplitResult:
    result = SplitResult()
    kept = SplitWriter(split)
    try:
        if split.topic is not None:
            _read_topic(split, split.topic, kept)
        for place, file in split.files:
            taken = _read(split, place, file)
            if taken is None:
                result.deferred.append(file.path)
                continue
            kept.add(taken)
            if kept.is_large:
                kept.write()
        kept.write()
    except OSError as error:
        kept.discard()
        result.fault = str(error)
        return result
    except DamagedArrayError as error:
        kept.discard()
        result.damaged = str(error)
        return result
    except KeyfoldError as error:
        kept.discard()
        result.refused = str(error)
        return result
    result.counts, result.events, result.rejects = kept.counts, kept.events, kept.rejected
    return result


def _read_topic(split: Split, access: TopicAccess, kept: SplitWriter) -> None:
    """Take the rows of ranges of offsets."""
    if access.is_gone:
        for _, lost in split.ranges:
            kept.reject_gap(access, lost)
        return
    settings = KafkaSettings.of_worker(access.bootstrap, access.settings)
    columns = message_columns(split.stream.raw_schema.names)
    with TopicReader(settings, access.name, columns, record_gaps=access.record_gaps) as reader:
        for place, offsets in split.ranges:
            for found in reader.read(offsets):
                if isinstance(found, OffsetRange):
                    kept.reject_gap(access, found)
                    continue
                rows = parse_messages(
                    split.stream,
                    found.values,
                    found.offsets,
                    _arrivals(split, access, found),
                    beside=found.columns,
                    faults=found.faults,
                    path=access.name,
                    oldest=split.oldest,
                )
                kept.take(rows, place, access.where(found.partition), first_line=offsets.start)
                if kept.is_large:
                    kept.write()


def _arrivals(split: Split, access: TopicAccess, messages: Messages) -> datetime | pl.Series:
    """When messages arrived: by the broker's clock where it says so, between the plan before and this one."""
    if messages.appended is None:
        return split.arrived
    arrived = to_times(messages.appended)
    if access.arrived_after is not None:
        arrived = arrived.clip(lower_bound=access.arrived_after)
    return arrived.clip(upper_bound=split.arrived)


def _read(split: Split, place: int, file: AdmittedFile) -> SplitWriter | None:
    """The rows of a file; None where it is not any more what was planned."""
    path, taken = split.landing / file.path, SplitWriter(split)
    refused = file.refused or refusal(split.landing, file.path)
    if refused:
        taken.reject_file(str(path), refused)
        taken.counts += IngestCounts(files=1)
        return taken
    if not _is_as_planned(path, file):
        return None
    try:
        for rows in parse_file(split.stream, path, split.arrived, split.landing, split.oldest):
            taken.take(rows, place, str(path))
            # Written apart from the rows of other files: it may be found broken in its last line, and then none of it counts.
            if taken.is_large:
                taken.write()
    except UnreadableFileError as error:
        taken.discard()
        taken = SplitWriter(split)
        taken.reject_file(str(path), str(error))
    except BaseException:
        taken.discard()
        raise
    # And again at the end: a file that was written while it was read is read whole by a later run, or not at all.
    if not _is_as_planned(path, file):
        taken.discard()
        return None
    taken.counts += IngestCounts(files=1)
    return taken


def _is_as_planned(path: Place, file: AdmittedFile) -> bool:
    return is_as_admitted(path, file.size, (file.modified_at, file.changed_at), file.fingerprint)
