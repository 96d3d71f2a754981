"""Rebuild a stream's tables from its landing files and topics. The old tables are moved aside, never deleted.

FOLDER/rebuild.json   an unfinished rebuild: the folder for the old tables, and the folders and topics to read

The record is written first and removed last, so that the same command continues an interrupted rebuild.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import reduce

from keyfold.errors import KeyfoldError, NotFound
from keyfold.ingestion.event_rewrites import give_up_rewrites
from keyfold.ingestion.ingest_records import IngestSummary, added
from keyfold.ingestion.ingest_run import ingest_under_lock
from keyfold.ingestion.ingest_settings import REBUILD, RECORD
from keyfold.ingestion.inspection import all_known_files, read_topics
from keyfold.ingestion.kafka.kafka_settings import PREFIX, KafkaSettings
from keyfold.ingestion.kafka.offsets import ReadTopic, TopicState
from keyfold.ingestion.kafka.topic import KafkaTopic, topic_state
from keyfold.ingestion.listing import Landing, source_name, source_place
from keyfold.journal.records import Progress
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import fail_point
from keyfold.runners import Runners
from keyfold.storage.place import Place
from keyfold.stream import Stream


def rebuild(
    lakehouse: Lakehouse,
    stream: Stream,
    landing: Landing | None = None,
    *,
    settle: timedelta = timedelta(0),
    on_batch: Callable[[Progress], None] | None = None,
    runners: Runners | None = None,
) -> IngestSummary:
    """Move a stream's tables and its ingest's records aside, and read all of its landing folders and topics again.

    Of a topic, all messages that Kafka still has are read; those that expire meanwhile are recorded in quarantine. Jobs that
    read the old event table need a full refresh.

    Args:
        lakehouse: the lakehouse of the tables.
        landing: a landing folder or topic to read besides those read before. If there are none, the default landing folder
            is read.
        settle: as for `ingest`.
        on_batch, runners: as for `ingest`.

    Raises:
        KeyfoldError: no landing folder exists (nothing was moved), or as `ingest`. Run it again to continue.
    """
    began = time.monotonic()
    folder = lakehouse.ingest(stream.name)
    with folder.exclusive(f"ingest of {stream.name}"):
        give_up_rewrites(lakehouse, stream.name)
        record = folder / REBUILD
        try:
            if not record.exists():
                record.write_json(_begun(lakehouse, stream, landing))
            begun = record.read_json()
            aside = lakehouse.home / begun["aside"]
            # Recorded before anything is read: a second attempt must not move the new tables aside.
            if not begun["is_moved"]:
                _move_aside(lakehouse, stream.name, aside)
                begun["is_moved"] = True
                record.write_json(begun)
            summaries = [
                ingest_under_lock(
                    runners or Runners.from_environment(),
                    lakehouse,
                    stream,
                    _landing(lakehouse, source, landing),
                    settle=settle,
                    on_batch=on_batch,
                    # Of any age, as in one run: events of an earlier source must not make those of a later one too old.
                    any_age=True,
                )
                for source in begun["sources"]
            ]
            # Last: until then all runs of ingest are refused, since they would continue from half of the files.
            record.unlink()
        except OSError as error:
            raise KeyfoldError(
                f"rebuilding {stream.name} was interrupted: {error}; correct that and run it again: it continues where it "
                "stopped"
            ) from error
    warnings = (*begun["warnings"], f"the old tables are in {aside}; delete that folder when it is no longer needed")
    summed = reduce(added, summaries)
    waiting = sum(summary.waiting for summary in summaries)
    return replace(summed, waiting=waiting, seconds=time.monotonic() - began, warnings=(*summed.warnings, *warnings))


def _begun(lakehouse: Lakehouse, stream: Stream, landing: Landing | None) -> dict[str, object]:
    """Return the record of a new rebuild, after a check that there is something to read: nothing is moved before."""
    warnings: list[str] = []
    files: dict[str, tuple[str, ...]] = {}
    topics: dict[str, ReadTopic] = {}
    try:
        files = all_known_files(lakehouse, stream.name)
        topics = read_topics(lakehouse, stream.name)
    except KeyfoldError as error:
        warnings.append(f"it is not known which landing folders were read before ({error}); give others with --from")
    if isinstance(landing, KafkaTopic):
        topics = topics | {landing.source: topics.get(landing.source, ReadTopic(id="", next={}))}
    elif landing is not None:
        files.setdefault(source_name(lakehouse, landing.expanduser().resolve()), ())
    if not files and not topics:
        files = {source_name(lakehouse, lakehouse.landing(stream.name)): ()}
    # Folders that no longer exist are skipped with a warning below, as long as something is left to read.
    sources = [source for source in files if source_place(lakehouse, source).is_dir()]
    if not sources and not topics:
        raise NotFound(
            f"{stream.name} cannot be rebuilt: none of its landing folders exists "
            f"({', '.join(str(source_place(lakehouse, source)) for source in files)}); restore one, or give it with --from"
        )
    for source, paths in files.items():
        landing_folder = source_place(lakehouse, source)
        gone = [path for path in paths if not (landing_folder / path).exists()]
        if gone:
            warnings.append(
                f"{len(gone):,} of {len(paths):,} files that were read from {landing_folder} no longer exist, and their rows "
                f"are not in the new tables ({', '.join(gone[:3])}{', …' if len(gone) > 3 else ''})"
            )
    for source, read in topics.items():
        warnings += _gone_from(source, read, topic_state(_topic(source, landing)))
    aside = f"aside/{stream.name}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    return {"aside": aside, "sources": [*sources, *topics], "is_moved": False, "warnings": warnings}


def _gone_from(source: str, read: ReadTopic, state: TopicState) -> list[str]:
    """Return warnings about messages that were read before and may have expired."""
    if read.id and read.id != state.id:
        return [
            f"{source} was deleted and created again since it was read: messages of the old topic are not in the new tables"
        ]
    return [
        f"{source}: Kafka has partition {number} only from offset {first} on; earlier messages are not in the new tables"
        for number, first in state.first.items()
        if first > 0 and read.next.get(number, 0) > 0
    ]


def _landing(lakehouse: Lakehouse, source: str, landing: Landing | None) -> Landing:
    return _topic(source, landing) if source.startswith(PREFIX) else source_place(lakehouse, source)


def _topic(source: str, landing: Landing | None) -> KafkaTopic:
    """Return the topic, to be read from its beginning: options for continuing (`start`, `on_gap`) do not apply."""
    settings = landing.settings if isinstance(landing, KafkaTopic) else KafkaSettings.from_environment()
    return KafkaTopic(source.removeprefix(PREFIX), on_gap="record", settings=settings)


def _move_aside(lakehouse: Lakehouse, stream: str, aside: Place) -> None:
    folder = lakehouse.ingest(stream)
    (aside / "ingest").mkdir(parents=True, exist_ok=True)
    for name, path in (("events", lakehouse.events(stream)), ("quarantine", lakehouse.quarantine(stream))):
        if path.exists():
            path.move_tree(aside / name, "_delta_log")
            fail_point("rebuild: one table moved")
    # Names with a dot stay, since the lock or lease is among them. The record of the ingest is moved last: without it, a new ingest
    # would begin and take over the old one's journal.
    parts = sorted(folder.iterdir(), key=lambda path: path.name == RECORD)
    for part in parts:
        if part.name == REBUILD or part.name.startswith("."):
            continue
        to = aside / "ingest" / part.name
        part.move_file(to) if part.is_file() else part.move_tree(to, "")
    for changed in (
        folder,
        aside,
        aside / "ingest",
        lakehouse.events(stream).parent,
        lakehouse.quarantine(stream).parent,
    ):
        if changed.is_dir():
            changed.sync_folder()
    fail_point("rebuild: moved")
