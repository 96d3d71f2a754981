"""What is known of landing files: the same however many runs there were, and the table grows with files alone."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from keyfold.errors import KeyfoldError
from keyfold.ingestion.ingest_records import AdmittedFile, IngestCounts, IngestDone, IngestPlan
from keyfold.ingestion.known import BATCHES_BETWEEN, KnownFiles
from keyfold.journal import Journal
from keyfold.journal.journal import KEPT

NOW = datetime(2026, 1, 1, tzinfo=UTC)
Pair = tuple[Journal[IngestPlan, IngestDone], KnownFiles]


def ingest_folder(folder: Path) -> Pair:
    journal = Journal(folder / "journal", IngestPlan, IngestDone)
    return journal, KnownFiles(folder, journal, "ingest of clicks")


def admitted(path: str, size: int = 1) -> AdmittedFile:
    return AdmittedFile(path=path, size=size, modified_at=size, changed_at=size, fingerprint=f"{size}")


def batch(pair: Pair, number: int, *files: AdmittedFile, source: str = "landing/clicks", deferred: tuple = ()) -> None:
    journal, known = pair
    plan = IngestPlan(batch=number, run=number, batches=1, planned_at=NOW, source=source, files=files)
    journal.write_plans([plan])
    done = IngestDone(
        batch=number,
        run=number,
        finished_at=NOW,
        seconds=1,
        tables={},
        last_written={},
        last_files={},
        counts=IngestCounts(),
        totals=IngestCounts(),
        deferred=deferred,
    )
    journal.write_done(done)
    known.keep()
    journal.compact()


def test_every_file_is_known_however_many_batches_ago_it_was_read(tmp_path):
    pair = ingest_folder(tmp_path)
    count = 3 * KEPT
    for number in range(count):
        batch(pair, number, admitted(f"{number}"))
        if number % 60 == 0:
            assert len(pair[1].of("landing/clicks")) == number + 1
    assert sorted(map(int, pair[1].of("landing/clicks"))) == list(range(count))
    assert len(list((tmp_path / "files").iterdir())) == 1
    assert len(list((tmp_path / "journal").iterdir())) < 5 * KEPT


def test_a_touched_file_is_noted_and_what_a_crash_leaves_of_the_table_changes_nothing(tmp_path):
    pair = ingest_folder(tmp_path)
    batch(pair, 0, admitted("a"), admitted("b"))
    pair[1].note("landing/clicks", {"a": admitted("a", 5)})
    assert {path: file.size for path, file in pair[1].of("landing/clicks").items()} == {"a": 5, "b": 1}
    (tmp_path / "files" / ".aside-xyz").write_bytes(b"half a table")
    batch(pair, 1, admitted("c"))
    assert {path: file.size for path, file in pair[1].of("landing/clicks").items()} == {"a": 5, "b": 1, "c": 1}


def test_what_is_not_known_any_more_is_refused_and_never_guessed(tmp_path):
    pair = ingest_folder(tmp_path)
    for number in range(2 * KEPT + 1):
        batch(pair, number, admitted(f"{number}"))
    for table in (tmp_path / "files").iterdir():
        table.unlink()
    with pytest.raises(KeyfoldError, match="it is not known which files were read"):
        pair[1].of("landing/clicks")
    assert BATCHES_BETWEEN < KEPT
