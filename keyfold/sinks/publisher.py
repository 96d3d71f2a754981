"""Send rows of append tables to Kafka, after the table's commit, from the files in the commit records.

    KEYFOLD_KAFKA_SINKS="ride_summaries=rides.summaries"   tables and their topics; see `encoding` for other formats than JSON

The topic follows the table. Each batch is one Kafka transaction, which also commits the number of the next batch as the offset
of a consumer group of this table. So an interrupted batch is aborted as a whole and sent again, and a committed one is not.
**Exactly once, for readers of committed messages, as long as Kafka keeps that offset** (`offsets.retention.minutes` after the
last batch, a week by default). If the offset has expired, a note beside the journal has the last batch. As it is written after
the commit, one batch may then be sent twice. The headers `keyfold-generation`, `keyfold-batch` and `keyfold-row` identify a row
permanently, so that readers can drop copies.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import Damaged, KeyfoldError, Misconfigured, Unreachable
from keyfold.ingestion.kafka.kafka_settings import KafkaSettings, check_topic
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.tables import OutputTable
from keyfold.keyed.rows.codec import polars_schema
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.reading import read_parquet
from keyfold.lazy_names import from_extra
from keyfold.secret_settings import parse_conf
from keyfold.sinks.encoding import FORMATS, Encode, as_json, encoder
from keyfold.sinks.sender import Sender, Sent

if TYPE_CHECKING:
    from confluent_kafka import KafkaException
else:
    (KafkaException,) = from_extra("kafka", "confluent_kafka", "KafkaException")

SINKS_VARIABLE = "KEYFOLD_KAFKA_SINKS"

_LEFT_ALONE = 60.0
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Published:
    """What was sent of a table.

    Attributes:
        table, topic: the table and its topic.
        batches, rows: number of batches and rows sent.
        warnings: warnings about rows that could not be sent.
    """

    table: str
    topic: str
    batches: int
    rows: int
    warnings: tuple[str, ...] = ()

    def after(self, earlier: "Published | None") -> "Published":
        """The sum of this and what was sent of the table earlier."""
        if earlier is None:
            return self
        warnings = (*earlier.warnings, *self.warnings)
        return Published(self.table, self.topic, earlier.batches + self.batches, earlier.rows + self.rows, warnings)


class Sink(NamedTuple):
    """Where a table goes.

    Attributes:
        topic: the topic.
        form: the format of its messages, one of `encoding.FORMATS`.
    """

    topic: str
    form: str = "json"


def kafka_sinks(environment: Mapping[str, str] = os.environ) -> dict[str, Sink]:
    """The topics of KEYFOLD_KAFKA_SINKS and their formats, by table.

    Raises:
        KeyfoldError: an entry is invalid, there is no such format, or a name is not valid for a topic.
    """
    sinks = {}
    for table, text in parse_conf(environment.get(SINKS_VARIABLE, ""), SINKS_VARIABLE).items():
        form, colon, topic = text.rpartition(":")
        if colon and form not in FORMATS:
            raise Misconfigured(f"{SINKS_VARIABLE}: {table} goes out as {form!r}; give one of {', '.join(FORMATS)}")
        sinks[table] = Sink(check_topic(topic, f"{SINKS_VARIABLE}: the topic of {table}"), form or "json")
    return sinks


def publish(lakehouse: Lakehouse, job: KeyedJob, environment: Mapping[str, str] = os.environ) -> tuple[Published, ...]:
    """Send the batches of a job's tables that their topics do not have yet. Tables without a topic are skipped.

    Args:
        lakehouse: the lakehouse of the tables.
        environment: environment variables with the topics and Kafka's settings.

    Raises:
        KeyfoldError: a table is updated in place, Kafka does not answer, another process sends the same table, a file of it
            is gone, or its topic has batches of another history of the job. The tables have their rows; the next call
            continues with the batch at which this one failed.
    """
    sinks = kafka_sinks(environment)
    wanted = [table for table in job.tables if table.name in sinks]
    if not wanted:
        return ()
    if updated := [table.name for table in wanted if table.mode != "append"]:
        raise Misconfigured(
            f"{SINKS_VARIABLE} names {', '.join(updated)}, whose rows are updated in place: only append tables can have a "
            "topic"
        )
    generation = live_generation(lakehouse, job.name)
    if generation is None:
        return ()
    settings = KafkaSettings.from_environment(environment)
    return tuple(_publish(settings, job, generation, table, sinks[table.name]) for table in wanted)


class Publisher:
    """Calls `publish` during a run, and sums up results and warnings.

    Failures of Kafka do not fail the run, whose rows are in their tables. After a failure, Kafka is not tried again for a
    minute, so that it does not delay each batch.
    """

    def __init__(self, lakehouse: Lakehouse, job: KeyedJob, environment: Mapping[str, str] = os.environ) -> None:
        self._lakehouse, self._job, self._environment = lakehouse, job, environment
        self._sent: dict[str, Published] = {}
        self._failed_at: float | None = None
        self._failure = ""

    def publish(self, *, at_last: bool = False) -> None:
        """Send new batches.

        Args:
            at_last: whether this is the last call of the run, which tries even after a recent failure.
        """
        if self._failed_at is not None and not at_last and time.monotonic() - self._failed_at < _LEFT_ALONE:
            return
        self._failed_at, self._failure = None, ""
        try:
            for published in publish(self._lakehouse, self._job, self._environment):
                self._sent[published.table] = published.after(self._sent.get(published.table))
        except KeyfoldError as error:
            self._failed_at, self._failure = time.monotonic(), str(error)

    @property
    def sent(self) -> tuple[Published, ...]:
        """What was sent, for each table."""
        return tuple(self._sent.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of all calls, and the last failure."""
        warnings = [warning for published in self._sent.values() for warning in published.warnings]
        return (*warnings, *([self._failure] if self._failure else []))


def _publish(
    settings: KafkaSettings, job: KeyedJob, generation: Generation, table: OutputTable, sink: Sink
) -> Published:
    topic = sink.topic
    # Made for the first batch: a run without news asks no registry.
    encode = cache(lambda: encoder(settings, sink.form, topic, table.name, polars_schema(table.schema)))
    try:
        with Sender(settings, generation, table.name, topic) as sender:
            return _send_new(sender, job, generation, table, topic, encode)
    except KafkaException as error:
        raise Unreachable(
            f"rows of {table.name} do not reach topic {topic} in Kafka at {settings.bootstrap}: "
            f"{settings.without_secrets(error.args[0].str())}. The table has these rows; the next run sends them"
        ) from None


def _send_new(
    sender: Sender, job: KeyedJob, generation: Generation, table: OutputTable, topic: str, encode: Callable[[], Encode]
) -> Published:
    newest = generation.journal.last_done()
    last = newest.batch if newest else -1
    sent = sender.last_sent()
    _check_history(generation, sent, last, f"topic {topic}", job.name)
    first = sent.batch + 1
    warnings: list[str] = []
    batches = rows = 0
    for record in _committed(generation, table.name, first, last):
        if record.batch > first:
            warnings.append(
                f"topic {topic} lacks the rows of {table.name} from batches {first} to {record.batch - 1}, whose records the "
                "journal no longer keeps; the table has these rows"
            )
        files = record.tables.get(table.name, ())
        fail_point("sink: before")
        digest = generation.journal.digest(record.batch) or ""
        rows += sender.send(
            record.batch, digest, (row for file in files for row in _rows(generation, job, table, file.path, encode()))
        )
        batches += 1
        first = record.batch + 1
    return Published(table.name, topic, batches, rows, tuple(warnings))


def _check_history(generation: Generation, sent: Sent, last: int, topic: str, job: str) -> None:
    """Refuse if the topic has a batch that the journal lacks, or has with other content, as after a restored backup."""
    if sent.batch > last:
        difference = f"{topic} has batch {sent.batch} of job {job}, but the journal ends at batch {last}"
    elif sent.digest and generation.journal.digest(sent.batch) not in {None, sent.digest}:
        difference = f"batch {sent.batch} of job {job}, which {topic} has, is not the one in the journal"
    else:
        # No digest: the journal no longer keeps this record, and is then a hundred batches ahead.
        return
    raise Damaged(
        f"{difference}: {generation.folder} was restored from a backup. No rows are sent, since readers could not distinguish those "
        f"of the two histories. Run job {job} with --full-refresh: it sends all rows as a new generation"
    )


def _committed(generation: Generation, table: str, first: int, last: int) -> Iterator[KeyedDone]:
    """The commit records from batch `first` on that are committed to the table, as far as the journal keeps them."""
    folder = generation.table(table)
    taken = DeltaTable(str(folder)).transaction_version(f"{generation.identity}/{table}") if is_table(folder) else None
    for batch in range(first, last + 1):
        record = generation.journal.done(batch)
        if record is None:
            continue
        # Rows are sent only after the table has them: stop at the first batch that is not committed.
        if record.tables.get(table) and (taken is None or taken < batch):
            return
        yield record


def _rows(
    generation: Generation, job: KeyedJob, table: OutputTable, path: str, encode: Encode
) -> Iterator[tuple[bytes | None, bytes]]:
    """The keys and values of a data file's rows."""
    file = generation.table(table.name) / path
    try:
        frame = read_parquet(file)
    except FileNotFoundError:
        raise Damaged(
            f"{file} is gone (maintenance deletes replaced files after days), and its rows were not sent yet; the table "
            f"{table.name} has them. Run job {job.name} with --full-refresh: it sends all rows as a new generation"
        ) from None
    keys = [name for name in job.key if name in frame.columns]
    for part in frame.iter_slices(_ROWS_AT_ONCE):
        yield from zip(_keys(part, keys), encode(part), strict=True)


def _keys(part: pl.DataFrame, keys: list[str]) -> Iterator[bytes | None]:
    """The job's key as text if it is a single text, else as JSON; None if the table does not have it."""
    if not keys:
        return (None for _ in range(part.height))
    if len(keys) == 1 and part.schema[keys[0]] == pl.String:
        return (value.encode() for value in part[keys[0]])
    return iter(as_json(part.select(keys)))
