"""Check the health of jobs and streams: lateness, watermark lag, columns, quarantine. These checks only warn."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg
import polars as pl

from keyfold.dagster.assets.previews import reasons_of
from keyfold.dagster.failures import fails_with_message
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.ingestion import ingest_journal
from keyfold.ingestion.drift import find_drift, newest_files
from keyfold.ingestion.ingest_records import IngestDone
from keyfold.ingestion.landing import landing_folder
from keyfold.keyed.generation.configured import configured_job
from keyfold.keyed.generation.continuing import code_of_generation
from keyfold.keyed.generation.generations import live_generation
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.lakehouse.reading import scan_table
from keyfold.runs.health import STALE, health_of_job
from keyfold.state.changing.migrating import changes_to
from keyfold.storage.place import Place
from keyfold.stream import Stream

TRAILING_RUNS = 20
_MOST_LATE = _MOST_QUARANTINED = 0.05
_LONGEST_NAME = 100
_LONGEST_REASON = 300
_MOST_NAMED = 3
_FEW_LINES = 10
"""A file with fewer bad lines is not called bad as a whole."""

Finding = tuple[bool, str]
"""Whether the check passed, and its description."""


def health_checks(declared: KeyedJob, translator: KeyfoldTranslator = DEFAULT) -> dg.AssetChecksDefinition:
    """Build the health checks of a job: late events, watermark, and whether its live generation is of the code that runs."""
    asset = translator.get_asset_key(declared.name)
    return _checks(
        declared.name,
        asset,
        {
            "few_events_are_late": (
                f"At most {_MOST_LATE:.0%} of the events of the last batches were late.",
                lambda lakehouse: lateness(lakehouse, declared.name),
            ),
            "watermark_keeps_up": (
                f"The watermark is at most {STALE / timedelta(hours=1):.0f} hours behind the clock.",
                lambda lakehouse: lag(lakehouse, declared.name, datetime.now(UTC)),
            ),
            "live_generation_is_of_this_code": (
                "The live generation is of the code that runs: nothing that the job declares, and no function of it, was changed.",
                lambda lakehouse: changed(lakehouse, declared),
            ),
        },
    )


def stream_health_checks(stream: Stream, translator: KeyfoldTranslator = DEFAULT) -> dg.AssetChecksDefinition:
    """Build the health checks of a stream: columns that it does not know, quarantined rows."""
    return _checks(
        f"{stream.name}_stream",
        translator.get_asset_key(f"events.{stream.name}"),
        {
            "landing_files_have_the_stream_s_columns": (
                "The newest files have no column that the stream does not know.",
                lambda lakehouse: drift(stream, landing_folder(lakehouse, stream.name)),
            ),
            "few_rows_are_quarantined": (
                f"Less than {_MOST_QUARANTINED:.0%} of the rows of the last batches, and of the newest, were quarantined; no file was "
                "unreadable or bad as a whole.",
                lambda lakehouse: quarantined(lakehouse, stream.name),
            ),
        },
    )


def _checks(
    name: str, asset: dg.AssetKey, checks: Mapping[str, tuple[str, Callable[[Lakehouse], Finding]]]
) -> dg.AssetChecksDefinition:
    """Build checks that only warn, from their descriptions and what finds out."""

    @dg.multi_asset_check(
        name=f"{name}_health",
        specs=[dg.AssetCheckSpec(check, asset=asset, description=text) for check, (text, _) in checks.items()],
        can_subset=True,
        description=f"Health of {asset.to_user_string()}.",
    )
    @fails_with_message
    def health(
        context: dg.AssetCheckExecutionContext, keyfold: dg.ResourceParam[Keyfold]
    ) -> Iterator[dg.AssetCheckResult]:
        for key in sorted(context.selected_asset_check_keys):
            passed, description = checks[key.name][1](keyfold.lakehouse)
            yield dg.AssetCheckResult(
                passed=passed,
                asset_key=asset,
                check_name=key.name,
                severity=dg.AssetCheckSeverity.WARN,
                description=description,
            )

    return health


def lateness(lakehouse: Lakehouse, job: str) -> Finding:
    """Compare the late events of the last batches with all their events."""
    generation = live_generation(lakehouse, job)
    batches = generation.journal.recent() if generation else []
    events = sum(record.counts.events for record in batches)
    late = sum(record.counts.rows.get(f"late.{job}", 0) for record in batches)
    if not events:
        return True, "no events in the last batches"
    return (
        late <= _MOST_LATE * events,
        f"{late:,} of {events:,} events of the last {len(batches)} batches were late",
    )


def changed(lakehouse: Lakehouse, declared: KeyedJob) -> Finding:
    """Compare what a job declares, and the code of its functions, with its live generation."""
    live = live_generation(lakehouse, declared.name)
    if live is None:
        return True, "the job has not run yet"
    changes = changes_to(configured_job(lakehouse, declared), live)
    if changes:
        return False, f"{'; '.join(map(str, changes))}. See `{lakehouse.command('plan', declared.name)}`"
    code = code_of_generation(live)
    since = f"; since batch {code.since}: {code.change}" if code.change else ""
    return True, f"{live.name} is of this code{since}"


def quarantined(lakehouse: Lakehouse, stream: str) -> Finding:
    """Compare the quarantined rows of the last batches with all their rows, and look for files that are bad as a whole."""
    batches = ingest_journal(lakehouse, stream).recent(TRAILING_RUNS)
    read = [one for one in batches if one.counts.rows_read]
    if not read:
        return True, "no rows in the last batches"
    found, bad = _share(batches)
    _, bad_now = _share(read[-1:])
    if not sum(one.counts.quarantined for one in read):
        return True, found
    rows = scan_table(lakehouse.quarantine(stream)).filter(pl.col("batch") >= batches[0].batch)
    unreadable, whole = _bad_files(rows)
    if max(bad, bad_now) < _MOST_QUARANTINED and not unreadable and not whole:
        return True, found
    reasons = [
        f"{_plain(reason or '', _LONGEST_REASON)} ({count:,})"
        for reason, count in reasons_of(rows).head(_MOST_NAMED).iter_rows()
    ]
    parts = [f"{found}, most often for: {'; '.join(reasons)}"]
    parts += [f"unreadable: {_named(unreadable)}"] if unreadable else []
    parts += [f"bad as a whole: {_named(whole)}"] if whole else []
    return (
        False,
        f"{'. '.join(parts)}. See `keyfold show quarantine.{stream}`, and fix the source or the stream's columns",
    )


def _share(batches: Sequence[IngestDone]) -> tuple[str, float]:
    bad = sum(one.counts.quarantined for one in batches)
    rows = bad + sum(one.counts.accepted for one in batches)
    return f"{bad:,} of {rows:,} rows of the last {len(batches)} batches were quarantined", bad / max(rows, 1)


def _bad_files(rows: pl.LazyFrame) -> tuple[list[str], list[str]]:
    """Return files that were rejected as a whole, and those most of whose lines were, up to the last of these."""
    files = rows.filter(pl.col("file").is_not_null(), ~pl.col("file").str.starts_with("kafka://"))
    lines = files.group_by("file").agg(
        bad=pl.col("line").count(), last=pl.col("line").max(), whole=pl.col("line").has_nulls()
    )
    found = lines.sort("file").collect(engine="streaming")
    most = found.filter(pl.col("bad") >= _FEW_LINES, pl.col("bad") >= pl.col("last") // 2)
    return found.filter("whole")["file"].to_list(), most["file"].to_list()


def _named(files: Sequence[str]) -> str:
    more = f" and {len(files) - _MOST_NAMED:,} more" if len(files) > _MOST_NAMED else ""
    return ", ".join(_plain(name.rpartition("/")[2]) for name in files[:_MOST_NAMED]) + more


def lag(lakehouse: Lakehouse, job: str, now: datetime) -> Finding:
    """Compare the watermark with the clock."""
    health = health_of_job(lakehouse, job, now=now)
    if health.watermark is None or health.behind is None:
        return True, "no events yet"
    text = f"the watermark is {health.watermark:%Y-%m-%d %H:%M} UTC, {_hours(health.behind)} behind the clock"
    return health.behind <= STALE, text


def drift(stream: Stream, landing: Place) -> Finding:
    """Compare the newest files' columns with those of the stream."""
    if not landing.is_dir():
        return True, "no landing folder"
    newest = newest_files(stream, landing)
    if not newest:
        return True, "no files in the landing folder"
    found = find_drift(stream, newest, landing).unknown
    differences = [
        f"{_plain(file.name)} has {_unknown(stream, names)}, unknown to {stream.name}" for file, names in found.items()
    ]
    return not found, "; ".join(
        differences
    ) or f"the newest {len(newest)} files have no column that {stream.name} does not know"


def _unknown(stream: Stream, names: Sequence[str]) -> str:
    # In a file without a header, the first row's values are taken for names, and may be private.
    if stream.private:
        return f"{len(names):,} {'column' if len(names) == 1 else 'columns'}"
    return ", ".join(map(_plain, names))


def _plain(text: str, longest: int = _LONGEST_NAME) -> str:
    """Replace signs of markup in text with foreign names: Dagster's pages render descriptions as Markdown.

    Round brackets stay: they are markup only behind square ones.
    """
    return re.sub(r"[^\w .,;:'\"%=+()-]", "�", text)[:longest]


def _hours(length: timedelta) -> str:
    hours = length / timedelta(hours=1)
    return f"{hours:,.1f} hours" if hours < 48 else f"{hours / 24:,.0f} days"
