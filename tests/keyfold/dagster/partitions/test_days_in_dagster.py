"""A table with partitions in Dagster: runs report complete days, and assets downstream start once for each."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import polars as pl
import pytest

import keyfold
from keyfold import Input, Upsert, required
from keyfold.dagster import JobAssets, Partitions, keyfold_assets
from keyfold.dagster.partitions.reports import ROWS, partition_reports
from keyfold.dagster.quality import partition_checks
from keyfold.dagster.resources import Keyfold
from keyfold.errors import Misconfigured
from keyfold.journal.audit import Author
from keyfold.keyed.generation.run_mode import Incremental
from keyfold.operators import Lateness, Top, count, windows
from keyfold.runs.reprocess import reprocess
from tests.lake import LOCAL, Lake
from tests.shop import CLICKS, HOUR

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = Partitions("window_start", zone="Europe/Berlin", start="2026-03-01")
DAY = timedelta(days=1)
MOMENT = timedelta(microseconds=1)
KINDS = {"user": pl.String, "at": pl.Datetime("us", "UTC"), "clicks": pl.Int64}
RANK = [
    required("window_start", pl.Datetime("us", "UTC"), "Hour"),
    required("rank", pl.Int64, "Rank"),
    ("user", pl.String),
]
SUNDAY = datetime(2026, 3, 29, tzinfo=BERLIN).astimezone(UTC)
"""The beginning of a day of 23 hours."""


def hourly(**settings: Any) -> keyfold.KeyedJob:
    idle = settings.pop("idle_timeout", None)
    return windows("hourly", Input(CLICKS, idle_timeout=idle), {"n": count()}, key="user", length="1h", **settings)


@dg.asset(deps=["hourly"], partitions_def=DAYS.definition, automation_condition=dg.AutomationCondition.eager())
def daily_report() -> None:
    """A plain asset of somebody else's."""


@dg.asset(
    deps=["hourly"],
    partitions_def=DAYS.definition,
    automation_condition=dg.AutomationCondition.eager() & dg.AutomationCondition.all_deps_blocking_checks_passed(),
)
def checked_report() -> None:
    """One that waits for the checks of the day."""


class Site(Lake):
    """A lakehouse, a code location with the job's assets, and an instance of Dagster."""

    def __init__(
        self,
        folder: Path,
        instance: dg.DagsterInstance,
        job: keyfold.KeyedJob,
        days: Partitions = DAYS,
        suites: Any = None,
    ) -> None:
        super().__init__(folder)
        self.instance, self.job, self.days = instance, job, days
        self.assets = keyfold_assets(jobs=[JobAssets(job, partitions=days)], suites=suites)
        self.definitions = dg.Definitions(
            assets=[dg.AssetSpec("clicks_events"), *self.assets, daily_report, checked_report],
            resources={"keyfold": Keyfold(self.lakehouse, LOCAL)},
        )
        self.cursor: Any = None

    def come(self, *times: datetime) -> None:
        self.put(pl.DataFrame([("ann", time, 1) for time in times], KINDS, orient="row"))

    def materialize(self, *assets: str, **options: Any) -> dg.ExecuteInProcessResult:
        job = self.definitions.resolve_implicit_global_asset_job_def()
        selection = [dg.AssetKey(name) for name in assets or ("hourly", "hourly_late")]
        existing = [key for key in selection if key in job.asset_layer.executable_asset_keys]
        return job.execute_in_process(instance=self.instance, asset_selection=existing, **options)

    def after_check(self, check: dg.AssetCheckKey, asset: str, day: str) -> dg.ExecuteInProcessResult:
        """Materialize a day of an asset after a check of the day."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        both = job.get_subset(asset_selection={dg.AssetKey(asset)}, asset_check_selection={check})
        return both.execute_in_process(instance=self.instance, raise_on_error=False, partition_key=day)

    def reported(self, asset: str = "hourly") -> list[tuple[str, Any]]:
        """The partitions that were materialized, with their rows, oldest first."""
        records = self.instance.fetch_materializations(dg.AssetKey(asset), limit=99, ascending=True).records
        events = [record.asset_materialization for record in records]
        return [(event.partition, event.metadata[ROWS].value) for event in events if event and event.partition]

    def observed(self) -> list[tuple[str, Any]]:
        records = self.instance.fetch_observations(dg.AssetKey("hourly"), limit=99, ascending=True).records
        events = [record.asset_observation for record in records]
        return [(event.partition, event.metadata["late"].value) for event in events if event and event.partition]

    def of_run(self) -> dict[str, Any]:
        """Metadata of the last report of a run."""
        records = self.instance.fetch_materializations(dg.AssetKey("hourly"), limit=9).records
        events = [record.asset_materialization for record in records if record.asset_materialization]
        return {
            name: value.value for name, value in next(one for one in events if one.partition is None).metadata.items()
        }

    def tick(self, now: datetime, asset: str = "daily_report") -> int:
        """How many days of an asset downstream Dagster's automation starts at a time."""
        result = dg.evaluate_automation_conditions(
            self.definitions, self.instance, cursor=self.cursor, evaluation_time=now
        )
        self.cursor = result.cursor
        self.requested = {
            one.key: {str(key) for key in one.true_subset.expensively_compute_partition_keys()}
            for one in result.results
            if isinstance(one.key, dg.AssetCheckKey) and one.true_subset.size
        }
        return result.get_num_requested(dg.AssetKey(asset))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


def test_a_day_is_reported_when_the_watermark_has_passed_it_and_an_asset_downstream_starts_once(tmp_path, instance):
    site, evening, after = Site(tmp_path, instance, hourly()), SUNDAY + 20 * HOUR, SUNDAY + 25 * HOUR
    site.come(SUNDAY - HOUR, SUNDAY, SUNDAY + HOUR)
    assert site.materialize().success
    # The day of the first event is complete: the watermark is past its end.
    assert site.reported() == [("2026-03-28", 1)]
    assert site.of_run()["partitions_written"] == "2026-03-28 (+1), 2026-03-29 (+1)"
    assert site.tick(evening) == 0
    # Its end, at 23 hours, is at the watermark; a microsecond before, it is open.
    for last, days in ((SUNDAY + 23 * HOUR - MOMENT, 1), (SUNDAY + 23 * HOUR, 2)):
        site.come(last)
        assert site.materialize().success
        assert len(site.reported()) == days
        assert site.tick(after) == (days == 2)
    assert site.reported()[1] == ("2026-03-29", 3)
    assert site.of_run()["partitions_complete"] == "2026-03-29"
    site.come(SUNDAY + 23 * HOUR + MOMENT)
    assert site.materialize().success
    assert (len(site.reported()), site.tick(after)) == (2, 0)


def test_days_without_rows_are_complete_too_and_those_before_the_first_event_are_none(tmp_path, instance):
    site = Site(tmp_path, instance, hourly())
    site.come(SUNDAY, SUNDAY + 3 * DAY)
    assert site.materialize().success
    assert site.reported() == [("2026-03-29", 1), ("2026-03-30", 0), ("2026-03-31", 0)]


def test_an_idle_stream_completes_its_day_without_a_row(tmp_path, instance):
    site = Site(tmp_path, instance, hourly(idle_timeout="1h"))
    site.come(SUNDAY)
    assert site.materialize().success
    assert site.reported() == []
    site.run(site.job, Incremental(advance_to=SUNDAY + DAY))
    assert site.materialize().success
    assert site.reported() == [("2026-03-29", 1)]
    assert site.of_run()["partitions_complete"] == "2026-03-29"


def test_late_events_change_a_complete_day_or_are_counted_on_its_page_as_the_job_says(tmp_path, instance):
    counted = Site(tmp_path / "counted", instance, hourly())
    counted.come(SUNDAY, SUNDAY + DAY)
    assert counted.materialize().success
    for number in (1, 2):
        counted.come(SUNDAY + 2 * HOUR)
        assert counted.materialize().success
        assert counted.materialize().success
        assert (counted.reported(), counted.observed()[number - 1 :]) == ([("2026-03-29", 1)], [("2026-03-29", number)])


def test_a_late_event_within_the_lateness_materializes_its_day_again_with_what_changed(tmp_path, instance):
    site = Site(tmp_path, instance, hourly(lateness=Lateness(allowed="7d")))
    site.come(SUNDAY, SUNDAY + DAY)
    assert site.materialize().success
    now = SUNDAY + 25 * HOUR
    # What was there before automation began is not new.
    assert site.tick(now) == 0
    site.come(SUNDAY + 2 * HOUR)
    assert site.materialize().success
    assert (site.reported(), site.observed()) == ([("2026-03-29", 1), ("2026-03-29", 2)], [])
    (event,) = instance.fetch_materializations(
        dg.AssetRecordsFilter(dg.AssetKey("hourly"), asset_partitions=["2026-03-29"]), limit=1
    ).records
    assert event.asset_materialization is not None
    told = {name: value.value for name, value in event.asset_materialization.metadata.items()}
    assert (told["status"], told["rows_before"], told[ROWS]) == ("changed", 1, 2)
    assert site.of_run()["partitions_changed"] == "2026-03-29"
    assert (site.tick(now), site.tick(now)) == (1, 0)


def test_what_a_run_did_not_report_the_next_one_does(tmp_path, instance, monkeypatch):
    site = Site(tmp_path, instance, hourly())
    site.come(SUNDAY, SUNDAY + DAY, SUNDAY + 2 * DAY)

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("keyfold.dagster.assets.keyed_asset.partition_reports", killed)
        with pytest.raises(KeyboardInterrupt):
            site.materialize()
    assert site.reported() == []
    # The first of them was reported, and not the run.
    first = partition_reports(instance, dg.AssetKey("hourly"), site.lakehouse, site.job, DAYS).events[0]
    instance.report_runless_asset_event(first)
    assert site.materialize().success
    assert site.reported() == [("2026-03-29", 1), ("2026-03-30", 1)]
    assert site.materialize().success
    assert len(site.reported()) == 2


def test_another_generation_reports_all_days_again(tmp_path, instance):
    site = Site(tmp_path, instance, hourly())
    site.come(SUNDAY, SUNDAY + DAY, SUNDAY + 2 * DAY)
    assert site.materialize().success
    refresh = {"ops": {"hourly": {"config": {"mode": "full_refresh"}}}}
    assert site.materialize(run_config=refresh).success
    assert site.reported() == 2 * [("2026-03-29", 1), ("2026-03-30", 1)]
    assert site.of_run()["partitions_changed"] == "2026-03-29, 2026-03-30"


def test_a_run_that_leaves_the_job_to_a_continuous_one_reports_its_days(tmp_path, instance):
    site = Site(tmp_path, instance, hourly())
    site.come(SUNDAY, SUNDAY + DAY)
    site.run(site.job)
    with site.lakehouse.job("hourly").exclusive("job hourly"):
        assert site.materialize(tags={"dagster/schedule_name": "hourly"}).success
    assert site.reported() == [("2026-03-29", 1)]


def test_side_tables_and_jobs_that_read_the_table_run_with_it(tmp_path, instance):
    top = Top(n=1, highest="n", latest=Upsert(RANK, ("window_start", "rank"), name="latest"))
    ranks = windows("hourly", Input(CLICKS), {"n": count()}, length="1h", by="user", top=top)
    daily = windows("daily", Input(ranks.table(), at="window_start"), {"n": count()}, key="user", length="1d")
    lake = Lake(tmp_path)
    lake.put(pl.DataFrame([("ann", SUNDAY + day * DAY, 1) for day in range(4)], KINDS, orient="row"))
    definitions = dg.Definitions(
        assets=[
            dg.AssetSpec("clicks_events"),
            *keyfold_assets(jobs=[JobAssets(ranks, partitions=DAYS), JobAssets(daily, late_asset=True)]),
        ],
        resources={"keyfold": Keyfold(lake.lakehouse, LOCAL)},
    )
    result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    events = result.get_asset_materialization_events()
    materialized = {(str(event.asset_key and event.asset_key.to_user_string()), event.partition) for event in events}
    assert materialized >= {("hourly_windows", None), ("latest", None), ("hourly", "2026-03-31"), ("daily", None)}
    with pytest.raises(
        Misconfigured, match="job daily: partitions: it reads the table of hourly, which has partitions"
    ):
        keyfold_assets(jobs=[JobAssets(ranks, partitions=DAYS), JobAssets(daily, partitions=DAYS)])


def test_no_day_is_reported_before_the_clock_has_passed_it(tmp_path, instance):
    site = Site(tmp_path, instance, hourly())
    site.come(SUNDAY, SUNDAY + DAY)
    site.run(site.job)
    asset = dg.AssetKey("hourly")
    for now, days in ((SUNDAY + 23 * HOUR - MOMENT, 0), (SUNDAY + 23 * HOUR, 1)):
        assert len(partition_reports(instance, asset, site.lakehouse, site.job, DAYS, now=now).events) == days


def of_range(first: str, last: str) -> dict[str, str]:
    """Tags of one run of adjacent partitions, as a backfill starts it (`BackfillPolicy.single_run`)."""
    return {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}


@pytest.mark.parametrize("column", ["window_start", "window_end"])
def test_a_backfill_computes_its_days_again_and_reports_them(tmp_path, instance, column):
    days = Partitions(column, zone="Europe/Berlin", start="2026-03-01")
    site = Site(tmp_path, instance, hourly(), days)
    site.come(SUNDAY + HOUR, SUNDAY + DAY + HOUR, SUNDAY + 4 * DAY)
    assert site.materialize().success
    # A late event: it counts when its day is computed again.
    site.come(SUNDAY + 2 * HOUR)
    assert site.materialize().success
    assert site.observed() == [("2026-03-29", 1)]
    assert site.materialize(tags=of_range("2026-03-29", "2026-03-30")).success
    told = [("2026-03-29", 1), ("2026-03-30", 1), ("2026-03-31", 0), ("2026-04-01", 0)]
    assert site.reported() == [*told, ("2026-03-29", 2), ("2026-03-30", 1)]
    assert site.rows("late.hourly") == []
    # The next run knows it, and what the command line computes again.
    assert site.materialize().success
    assert len(site.reported()) == len(told) + 2


def test_a_backfill_of_days_that_are_not_complete_says_so(tmp_path, instance):
    site = Site(tmp_path, instance, hourly())
    site.come(SUNDAY, SUNDAY + DAY)
    assert site.materialize(tags=of_range("2026-03-29", "2026-03-31")).success
    assert site.reported() == [("2026-03-29", 1)]
    result = site.materialize(tags=of_range("2026-03-30", "2026-03-31"), raise_on_error=False)
    (failed,) = result.get_step_failure_events()
    assert "none of the partitions 2026-03-30 to 2026-03-31 is complete yet" in str(failed.event_specific_data)


def test_days_that_the_command_line_computes_again_are_reported_by_the_next_run(tmp_path, instance):
    site = Site(tmp_path, instance, hourly())
    site.come(SUNDAY, SUNDAY + DAY, SUNDAY + 3 * DAY)
    assert site.materialize().success
    site.come(SUNDAY + 2 * HOUR)
    assert site.materialize().success
    before = len(site.reported())
    author = Author("ann", "late")
    assert reprocess(site.lakehouse, site.job, SUNDAY, SUNDAY + 3 * DAY, author=author, yes=True, runners=LOCAL).batch
    assert site.materialize().success
    assert ("2026-03-29", 2) in site.reported()[before:]


FEW = {"type": "expect_column_values_to_be_between", "kwargs": {"column": "n", "max_value": 2}, "severity": "critical"}


@pytest.mark.skipif(not partition_checks.ARE_SUPPORTED, reason="Dagster 1.13 brought checks of partitions")
@pytest.mark.parametrize("clicks", [1, 3])
def test_a_suite_is_evaluated_of_each_day_and_holds_back_what_waits_for_it(tmp_path, instance, clicks):
    site = Site(tmp_path, instance, hourly(), suites={"hourly": {"few": FEW}})
    check, is_good = dg.AssetCheckKey(dg.AssetKey("hourly"), "few"), clicks == 1
    site.come(SUNDAY - 2 * DAY)
    assert site.materialize().success
    assert site.tick(SUNDAY) == 0
    site.come(*[SUNDAY - 3 * HOUR] * clicks, SUNDAY)
    result = site.materialize(raise_on_error=False)
    # The run has evaluations of what it has written.
    assert evaluations(result) == {(None, is_good)}
    assert result.success == is_good
    # Those of days come with runs of them, in which what waits for a day comes after its checks.
    assert site.tick(SUNDAY + HOUR, "checked_report") == 1
    assert site.requested[check] == {"2026-03-27", "2026-03-28"}
    for day, passes in (("2026-03-27", True), ("2026-03-28", is_good)):
        of_day = site.after_check(check, "checked_report", day)
        assert (evaluations(of_day), of_day.success) == ({(day, passes)}, passes)
        assert bool(of_day.asset_materializations_for_node("checked_report")) == passes
    site.tick(SUNDAY + HOUR)
    assert check not in site.requested
    # A backfill has those of its days in its own run.
    backfilled = site.materialize(tags=of_range("2026-03-27", "2026-03-28"), raise_on_error=False)
    assert evaluations(backfilled) == {("2026-03-27", True), ("2026-03-28", is_good)}


def evaluations(result: dg.ExecuteInProcessResult) -> set[tuple[str | None, bool]]:
    return {
        (check.partition, check.passed) for check in result.get_asset_check_evaluations() if check.check_name == "few"
    }
