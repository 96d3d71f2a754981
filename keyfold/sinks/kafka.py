"""Rows of `append` tables to Kafka: after the table's commit, from the files that its commit record names.

    KEYFOLD_KAFKA_SINKS="ride_summaries=rides.summaries"   which tables go to which topics

The table is the truth, and a topic follows it. A batch is one transaction of Kafka, in which the number of the next batch
is committed too, as the offset of a consumer group of the table's own: so a batch that broke off is aborted whole and
sent again, and one that was committed is not. **Exactly once, for readers of committed messages, as long as Kafka keeps
that offset** (`offsets.retention.minutes` after the last batch, a week by default). Where it is gone, a note beside the
journal says how far it went; that is written after the commit, so that one batch may then come twice. The headers
`keyfold-generation`, `keyfold-batch` and `keyfold-row` name a row for ever: a reader that must not see a copy goes by them.
"""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
from deltalake import DeltaTable

from keyfold.errors import Damaged, KeyfoldError, Misconfigured, Unreachable
from keyfold.extras import from_extra
from keyfold.ingestion.sources.kafka.settings import KafkaSettings, check_topic
from keyfold.keyed.generation.batch_records import KeyedDone
from keyfold.keyed.generation.generations import Generation, live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.keyed.job.output_table import OutputTable
from keyfold.lakehouse import Lakehouse, is_table
from keyfold.lakehouse.fail_points import reached
from keyfold.lakehouse.parquet import read_parquet
from keyfold.session.settings import parse_conf
from keyfold.sinks.sender import Sender, Sent
from keyfold.times import ISO_FORMAT

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
        table, topic: from where to where.
        batches, rows: how many.
        warnings: what somebody should know.
    """

    table: str
    topic: str
    batches: int
    rows: int
    warnings: tuple[str, ...] = ()

    def after(self, earlier: "Published | None") -> "Published":
        """Together with what was sent of the table earlier."""
        if earlier is None:
            return self
        warnings = (*earlier.warnings, *self.warnings)
        return Published(self.table, self.topic, earlier.batches + self.batches, earlier.rows + self.rows, warnings)


def kafka_sinks(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Which topic a table goes to, by the table's name.

    Raises:
        KeyfoldError: the variable says nothing of the kind, or a topic cannot have such a name.
    """
    sinks = parse_conf(environment.get(SINKS_VARIABLE, ""), SINKS_VARIABLE)
    for table, topic in sinks.items():
        check_topic(topic, f"{SINKS_VARIABLE}: the topic of {table}")
    return sinks


def publish(lakehouse: Lakehouse, job: KeyedJob, environment: Mapping[str, str] = os.environ) -> tuple[Published, ...]:
    """Send what a job's tables have taken and their topics have not; nothing where none of them has a topic.

    Args:
        lakehouse: where the tables are.
        job: whose tables.
        environment: says which tables have topics, and how to reach Kafka.

    Raises:
        KeyfoldError: a table is updated in place, Kafka does not answer, somebody else sends the same table, a file of it
            is gone, or its topic has batches of another history of the job. The tables have their rows; the next call
            goes on with the batch that this one broke off at.
    """
    sinks = kafka_sinks(environment)
    wanted = [table for table in job.tables if table.name in sinks]
    if not wanted:
        return ()
    if updated := [table.name for table in wanted if table.mode != "append"]:
        raise Misconfigured(
            f"{SINKS_VARIABLE} names {', '.join(updated)}, whose rows are updated in place: only what is appended can go "
            "to a topic"
        )
    generation = live_generation(lakehouse, job.name)
    if generation is None:
        return ()
    settings = KafkaSettings.from_environment(environment)
    return tuple(_publish(settings, job, generation, table, sinks[table.name]) for table in wanted)


class Publisher:
    """`publish` for whoever runs a job: what was sent, and what somebody should know, over all of its calls.

    That Kafka is away is no fault of the run, whose rows are in their tables; after a failure it is left alone for a
    while, so that a run that goes on is not held up at each batch.
    """

    def __init__(self, lakehouse: Lakehouse, job: KeyedJob, environment: Mapping[str, str] = os.environ) -> None:
        self._lakehouse, self._job, self._environment = lakehouse, job, environment
        self._sent: dict[str, Published] = {}
        self._failed_at: float | None = None
        self._failure = ""

    def publish(self, *, at_last: bool = False) -> None:
        """Send what is new.

        Args:
            at_last: whether this is the last call, which tries in any case.
        """
        if self._failed_at is not None and not at_last and time.monotonic() - self._failed_at < _LEFT_ALONE:
            return
        self._failed_at, self._failure = None, ""
        try:
            for one in publish(self._lakehouse, self._job, self._environment):
                self._sent[one.table] = one.after(self._sent.get(one.table))
        except KeyfoldError as error:
            self._failed_at, self._failure = time.monotonic(), str(error)

    @property
    def sent(self) -> tuple[Published, ...]:
        """What was sent, by table."""
        return tuple(self._sent.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody should know."""
        told = [warning for one in self._sent.values() for warning in one.warnings]
        return (*told, *([self._failure] if self._failure else []))


def _publish(
    settings: KafkaSettings, job: KeyedJob, generation: Generation, table: OutputTable, topic: str
) -> Published:
    try:
        with Sender(settings, generation, table.name, topic) as sender:
            return _send_new(sender, job, generation, table, topic)
    except KafkaException as error:
        raise Unreachable(
            f"rows of {table.name} do not reach topic {topic} in Kafka at {settings.bootstrap}: "
            f"{settings.told(error.args[0].str())}. The table has them; the next run sends them"
        ) from None


def _send_new(sender: Sender, job: KeyedJob, generation: Generation, table: OutputTable, topic: str) -> Published:
    done = generation.journal.last_done()
    last = done.batch if done else -1
    sent = sender.last_sent()
    _check_history(generation, sent, last, f"topic {topic}", job.name)
    first = sent.batch + 1
    warnings: list[str] = []
    batches = rows = 0
    for done in _committed(generation, table.name, first, last):
        if done.batch > first:
            warnings.append(
                f"topic {topic} lacks the rows of {table.name} that batches {first} to {done.batch - 1} made: the journal keeps "
                "their records no more; the table has them"
            )
        files = done.tables.get(table.name, ())
        reached("sink: before")
        digest = generation.journal.digest(done.batch) or ""
        rows += sender.send(
            done.batch, digest, (row for file in files for row in _rows(generation, job, table, file.path))
        )
        batches += 1
        first = done.batch + 1
    return Published(table.name, topic, batches, rows, tuple(warnings))


def _check_history(generation: Generation, sent: Sent, last: int, topic: str, job: str) -> None:
    """Refuse where a topic has a batch that the journal, restored from a backup, does not have or made anew."""
    if sent.batch > last:
        what = f"{topic} has batch {sent.batch} of job {job}, and the journal ends at batch {last}"
    elif sent.digest and generation.journal.digest(sent.batch) not in {None, sent.digest}:
        what = f"batch {sent.batch} of job {job}, which {topic} has, is not the one in the journal"
    else:
        # The journal may keep the record no more: it is then a hundred batches ahead.
        return
    raise Damaged(
        f"{what}: {generation.folder} was restored from a backup. No rows are sent, since readers could not tell those of the "
        f"two histories apart. Run job {job} with --full-refresh: it sends all rows as a new generation"
    )


def _committed(generation: Generation, table: str, first: int, last: int) -> Iterator[KeyedDone]:
    """The commit records from a batch on whose rows the table has, as far as the journal keeps them."""
    folder = generation.table(table)
    taken = DeltaTable(str(folder)).transaction_version(f"{generation.identity}/{table}") if is_table(folder) else None
    for batch in range(first, last + 1):
        done = generation.journal.done(batch)
        if done is None:
            continue
        if done.tables.get(table) and (taken is None or taken < batch):
            return
        yield done


def _rows(generation: Generation, job: KeyedJob, table: OutputTable, path: str) -> Iterator[tuple[bytes | None, bytes]]:
    """Key and value of each row of a data file."""
    file = generation.table(table.name) / path
    try:
        frame = read_parquet(file)
    except FileNotFoundError:
        raise Damaged(
            f"{file} is gone (maintenance deletes what no reader needs after days), and its rows were not sent yet; the table "
            f"{table.name} has them. Run job {job.name} with --full-refresh: it sends all rows as a new generation"
        ) from None
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    frame = frame.with_columns(pl.col(name).dt.strftime(ISO_FORMAT) for name in times)
    keys = [name for name in job.key if name in frame.columns]
    for part in frame.iter_slices(_ROWS_AT_ONCE):
        values = part.write_ndjson().encode().splitlines()
        yield from zip(_keys(part, keys), values, strict=True)


def _keys(part: pl.DataFrame, keys: list[str]) -> Iterator[bytes | None]:
    """The job's key as text, where it is one text, else as JSON; none where the table does not have it."""
    if not keys:
        return (None for _ in range(part.height))
    if len(keys) == 1 and part.schema[keys[0]] == pl.String:
        return (value.encode() for value in part[keys[0]])
    return iter(part.select(keys).write_ndjson().encode().splitlines())
