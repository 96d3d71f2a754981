"""What a file gives, row by row, as ingest would put it into its two tables."""

from datetime import datetime
from pathlib import Path
from typing import Any

from keyfold.ingestion.parsing import UnreadableFileError, ValidatedRows, parse_file
from keyfold.storage.place import to_place
from keyfold.stream import INGESTED_AT, Stream


def file_rows(stream: Stream, path: Path, arrived: datetime, landing: Path | None = None) -> list[dict[str, Any]]:
    """A file's rows by line; of one that cannot be read, one row without a line."""
    try:
        found = [
            row
            for rows in parse_file(stream, to_place(path), arrived, landing and to_place(landing))
            for row in as_rows(stream, rows)
        ]
    except UnreadableFileError as error:
        return [_row(stream, None, str(error), None)]
    return sorted(found, key=lambda row: row["line"])


def as_rows(stream: Stream, rows: ValidatedRows) -> list[dict[str, Any]]:
    """Accepted and rejected rows with their lines: `raw` and `reason` of those that were rejected alone.

    Without the arrival, which is the same for all: `test_arrival.py` looks at that.
    """
    assert rows.read == rows.accepted.height + len(rows.rejects)
    assert rows.accepted.columns == stream.event_schema.names
    good = [
        event | {"raw": None, "line": line, "reason": None}
        for event, line in zip(rows.accepted.drop(INGESTED_AT).to_dicts(), rows.lines.tolist(), strict=True)
    ]
    return good + [_row(stream, reject.raw, reject.reason, reject.line) for reject in rows.rejects]


def _row(stream: Stream, raw: str | None, reason: str, line: int | None) -> dict[str, Any]:
    return dict.fromkeys(stream.schema.names) | {"raw": raw, "line": line, "reason": reason}
