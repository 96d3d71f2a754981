"""How a group of assets shows its streams and jobs: which side tables are assets, plots, owners, and when checks fail."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import dagster as dg
from pydantic import InstanceOf

from keyfold.dagster.partitions.completeness import rows_written
from keyfold.dagster.partitions.declared import Partitions
from keyfold.errors import Unfit
from keyfold.keyed.job.contract import KeyedJob
from keyfold.lakehouse import Lakehouse
from keyfold.runs.health import STALE
from keyfold.stream import Stream
from keyfold.validation import argument, declaration, to_duration

Plot = Callable[[Lakehouse], Mapping[str, dg.MetadataValue]]

MOST_LATE = MOST_QUARANTINED = 0.05


def _to_share(value: float) -> float:
    if not isinstance(value, float | int) or not 0 <= value <= 1:
        raise Unfit("give a share from 0 to 1, such as 0.05 for 5 %")
    return float(value)


def _name(shown: object) -> str:
    return getattr(shown, "name", repr(shown))


@declaration(lambda arguments: f"JobAssets of {_name(arguments.get('job'))}")
class JobAssets:
    """A job of a group of assets, and how Dagster shows it.

    Attributes:
        job: the job; the run config sets its parameters.
        plot: draws plots for the main table's metadata (`keyfold.dagster.plots`); not if a table has private columns.
        priority: of the steps that are ready, Dagster starts those with the highest priority first; checks have 0.
        owners: people or teams, in Dagster's notation; by default those of the group.
        late_asset: whether the table of late events is an asset, although no job of the group reads it and no suite checks it. Without,
            the main table's check `few_events_are_late` shows its newest rows.
        most_late: share of the events of the last batches, from 0 to 1, above which `few_events_are_late` fails.
        stale_after: how far the watermark may be behind the clock before `watermark_keeps_up` fails, such as `"26h"`.
        partitions: partitions of the main table by time, each of which is materialized when the watermark has passed it. All
            partitioned tables that one run writes must have the same ones.

    Raises:
        Misconfigured: a share is not from 0 to 1, or a duration is invalid; or the main table lacks the column of the partitions,
            or it is not known when they are complete.

    Example:
        >>> from spark_jobs.jobs.ride_summaries import RIDE_SUMMARIES
        >>> JobAssets(RIDE_SUMMARIES, most_late=0.01, stale_after="2h").stale_after
        datetime.timedelta(seconds=7200)
    """

    job: InstanceOf[KeyedJob]
    plot: Plot | None = None
    priority: int = 1
    owners: Sequence[str] = ()
    late_asset: bool = False
    most_late: float = argument(converter=_to_share, default=MOST_LATE)
    stale_after: timedelta = argument(converter=to_duration, default=STALE)
    partitions: InstanceOf[Partitions] | None = None

    def __post_init__(self) -> None:
        if self.partitions is not None:
            rows_written(f"job {self.job.name}", self.job, self.partitions)


@declaration(lambda arguments: f"StreamAssets of {_name(arguments.get('stream'))}")
class StreamAssets:
    """A stream of a group of assets, and how Dagster shows it.

    Attributes:
        stream: the stream.
        quarantine_asset: whether the quarantine table is an asset. Without, the check `few_rows_are_quarantined` of the event table shows
            its reasons and newest rows.
        most_quarantined: share of the rows of the last batches, or of the newest one, from 0 to 1, above which
            `few_rows_are_quarantined` fails.
        severity: of that check: by default it warns of too many rows, and a file that is unreadable, or bad as a whole, is an error.
        blocking: whether an error of that check keeps jobs from running on the good rows.

    Raises:
        Misconfigured: a share is not from 0 to 1.

    Example:
        >>> from spark_jobs.streams import SALES
        >>> StreamAssets(SALES, most_quarantined=0.5, severity=dg.AssetCheckSeverity.WARN).blocking
        False
    """

    stream: Stream
    quarantine_asset: bool = False
    most_quarantined: float = argument(converter=_to_share, default=MOST_QUARANTINED)
    severity: dg.AssetCheckSeverity | None = None
    blocking: bool = False
