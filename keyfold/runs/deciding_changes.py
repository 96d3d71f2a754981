"""Decide a change of events that are chosen: write its files, and the record that names them (`ingestion.event_rewrites`)."""

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from keyfold.ingestion.conflicts import as_raw
from keyfold.ingestion.event_rewrites import AuditEntry, EventRewrite, StreamChange, decide, prepare_index
from keyfold.ingestion.ingest_settings import QUARANTINE, open_ingest
from keyfold.journal.audit import Author, digest, mask_in_edits
from keyfold.keyed.generation.generations import all_generations
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.fail_points import fail_point
from keyfold.lakehouse.file_changes import files_of, prepare_addition, prepare_change, rows_at
from keyfold.privacy import MASK, masked
from keyfold.runs.changed_events import Change
from keyfold.runs.chosen_events import Chosen, WithValues, names_of
from keyfold.runs.landed_events import taken_out_reason
from keyfold.runs.quarantine_search import Quarantine
from keyfold.stream import Stream

SHOWN = 10
"""Number of rows that are shown."""
_NAMED = 1000
"""Number of events that the audit names."""


@dataclass(frozen=True)
class ChosenChange:
    """A change of events, whose rows are chosen.

    Attributes:
        lakehouse, streams, chosen, change, why: as in `rewrite_events`.
        rows: by stream, the rows of its event table that change, as `Change.changed` returns them.
    """

    lakehouse: Lakehouse
    streams: Sequence[Stream]
    rows: Mapping[str, pl.DataFrame]
    chosen: Chosen
    change: Change
    why: Author

    def counts(self, *, yes: bool) -> dict[str, int]:
        """Return the number of rows by place; of an erasure, names of files and keys in the audit are replaced here."""
        counts = Counter({f"events.{name}": rows.height for name, rows in self.rows.items()})
        if isinstance(self.chosen, WithValues):
            counts["keys in monitoring.edits"] = mask_in_edits(self.lakehouse, self.chosen.texts, yes=yes)
            for stream in self.streams:
                search = Quarantine(self.lakehouse, stream, self.chosen.texts)
                counts[f"quarantine.{stream.name}"] += search.lines
                counts["names of landing files"] += search.names
                if yes:
                    search.rename_files()
        return dict(+counts)

    def shown(self) -> tuple[dict[str, pl.DataFrame], dict[str, pl.DataFrame]]:
        """Return the first events by stream, as they are and as they will be, with private values masked."""
        before, after = dict[str, pl.DataFrame](), dict[str, pl.DataFrame]()
        for stream in self.streams:
            rows, names = self.rows[stream.name].head(SHOWN), stream.schema.names
            if rows.height:
                old = rows if set(names).issubset(rows.columns) else rows_at(self.lakehouse.events(stream.name), rows)
                private = frozenset(stream.private)
                before[stream.name] = masked(old.select(names), private)
                after[stream.name] = (
                    masked(self.change.after(rows).select(names), private) if self.change.right.width else old.clear()
                )
        return before, after

    def decide(self, counts: Mapping[str, int], again: Sequence[KeyedJob]) -> None:
        """Write all files, and record them.

        Args:
            counts: number of rows by place, for the audit.
            again: the jobs that are computed again.
        """
        streams = {stream.name: self._prepared(stream) for stream in self.streams}
        fail_point("rewrite: files written")
        # None of them may be live in the end, also no branch that is promoted meanwhile.
        jobs = {
            job.name: tuple(generation.identity for generation in all_generations(self.lakehouse, job.name))
            for job in again
        }
        rewrite = EventRewrite(
            id=uuid.uuid4().hex,
            at=datetime.now(UTC),
            kind=self.change.kind,
            audit=AuditEntry(who=self.why.who, why=self.why.why, keys=self._keys()),
            rows=dict(counts),
            streams=streams,
            jobs=jobs,
            forgets=self.change.kind == "erased",
        )
        decide(self.lakehouse, rewrite)

    def _prepared(self, stream: Stream) -> StreamChange:
        lakehouse, rows, tables, segments = self.lakehouse, self.rows[stream.name], {}, None
        # The quarantine before the events: between the two commits an event is in both tables, and never in none.
        if self.change.kind == "quarantined":
            table = open_ingest(lakehouse, stream).tables["quarantine"]
            tables["quarantine"] = prepare_addition(table, self._rejects(stream, rows), QUARANTINE)
        if isinstance(self.chosen, WithValues):
            lines = Quarantine(lakehouse, stream, self.chosen.texts).prepare()
            tables |= {} if lines is None else {"quarantine": lines}
        else:
            # An event that was corrected is known with its new values; one that was taken out may land again once it is right.
            segments = prepare_index(lakehouse, stream, rows, self.change.after(rows))
        if rows.height:
            table = lakehouse.events(stream.name)
            tables["events"] = prepare_change(table, files_of(rows), self.change.of_file(rows))
        return StreamChange(tables=tables, segments=segments)

    def _rejects(self, stream: Stream, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of a quarantine for events that are taken out."""
        reason = f"{taken_out_reason(stream)} by {self.why.who}: {self.why.why}"
        raws = [as_raw(stream, event) for event in rows.select(stream.event_schema.names).to_dicts()]
        places = names_of(stream, rows).rows() if "#file" in rows.columns else [(None, None)] * rows.height
        rejects = [
            (raw, file, line, reason, None, header) for (raw, header), (file, line) in zip(raws, places, strict=True)
        ]
        kinds = {name: pl.Int64 if name in ("line", "batch") else pl.String for name in QUARANTINE.names}
        return pl.DataFrame(rejects, kinds, orient="row")

    def _keys(self) -> list[dict[str, object]] | dict[str, str]:
        """Return what the audit says of which events. Values that are erased must not be recorded: their digests are.

        Private values are masked, and have no digest either, which tells a value that is one of few.
        """
        private = {name for stream in self.streams for name in stream.private}
        if isinstance(self.chosen, WithValues):
            texts = self.chosen.texts
            return {name: MASK if name in private else digest(json.dumps(sorted(texts[name]))) for name in texts}
        (stream,) = self.streams
        keys = masked(names_of(stream, self.rows[stream.name].head(_NAMED)), frozenset(private)).to_dicts()
        return json.loads(json.dumps(keys, default=str))
