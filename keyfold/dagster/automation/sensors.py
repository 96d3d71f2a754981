"""Build the sensors that start one run for all new data of a source: a landing folder or a topic (`new_data` decides)."""

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

import dagster as dg

from keyfold import ingestion
from keyfold.dagster.automation.new_data import Decision, decide_on_messages, look_at_folder
from keyfold.dagster.resources import Keyfold
from keyfold.dagster.translator import DEFAULT, KeyfoldTranslator
from keyfold.errors import KeyfoldError
from keyfold.ingestion.kafka.topic import KafkaTopic, topic_state
from keyfold.ingestion.landing import find_landing, landing_folder
from keyfold.ingestion.listing import SETTLE
from keyfold.lakehouse import Lakehouse
from keyfold.stream import Stream

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def landing_sensor(
    stream: Stream,
    *,
    target: dg.AssetSelection | None = None,
    settle: timedelta = SETTLE,
    translator: KeyfoldTranslator = DEFAULT,
) -> dg.SensorDefinition:
    """Build the sensor that starts a run when a stream's source has new data: its topic if the environment names one, else its folder.

    It starts no run while one that it started is queued or running, so runs do not queue up; the next run reads what arrives
    meanwhile. It is stopped by default: opening Dagster's pages must not start runs.

    Args:
        stream: the stream.
        target: what the run executes, such as an asset group; by default the stream's ingest, and the automation condition of
            jobs starts them.
        settle: how long a file without a marker must be unchanged to count as whole.
        translator: names the assets.

    Raises:
        KeyfoldError: a setting of Kafka is wrong.

    Example:
        >>> from spark_jobs.streams import RIDE_POINTS
        >>> landing_sensor(RIDE_POINTS).name
        'ride_points_landed'
    """
    asset = translator.get_asset_key(f"landing.{stream.name}")
    target = target or dg.AssetSelection.assets(translator.get_asset_key(f"events.{stream.name}"))

    def look_at_files(lakehouse: Lakehouse, cursor: str | None) -> Decision:
        folder = landing_folder(lakehouse, stream.name)
        return look_at_folder(
            folder,
            cursor,
            settle=settle,
            done_marker=stream.done_marker,
            known=lambda: ingestion.known_files(lakehouse, stream.name, folder),
            unfinished=ingestion.is_unfinished(lakehouse, stream.name),
        )

    landing, name = find_landing(stream.name), stream.name
    if not isinstance(landing, KafkaTopic):
        return _sensor(f"{name}_landed", target, asset, look_at_files)

    def look_at_topic(lakehouse: Lakehouse, cursor: str | None) -> Decision:
        now = time.time_ns()
        try:
            state = topic_state(landing)
        except KeyfoldError as error:
            return Decision(cursor, reason=str(error))
        read = ingestion.read_topics(lakehouse, name).get(landing.source)
        return decide_on_messages(state, read, cursor, now, unfinished=ingestion.is_unfinished(lakehouse, name))

    return _sensor(f"{name}_lags", target, asset, look_at_topic)


def _sensor(
    name: str, target: dg.AssetSelection, asset: dg.AssetKey, look: Callable[[Lakehouse, str | None], Decision]
) -> dg.SensorDefinition:
    @dg.sensor(
        name=name,
        target=target,
        minimum_interval_seconds=5,  # as often as the daemon looks; a tick only lists one folder, or asks Kafka once
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Starts a run when there is new data in {asset.to_user_string()}.",
    )
    def new_data(
        context: dg.SensorEvaluationContext, keyfold: dg.ResourceParam[Keyfold]
    ) -> dg.SensorResult | dg.SkipReason:
        if waiting := unfinished_run(context.instance, {"dagster/sensor_name": name}):
            return dg.SkipReason(f"run {waiting} of {name} has not finished; the next run reads newer data")
        decision = look(keyfold.lakehouse, context.cursor)
        for warning in decision.warnings:
            context.log.warning(warning)
        if not decision.new:
            if decision.cursor is not None:
                context.update_cursor(decision.cursor)
            return dg.SkipReason("; ".join((decision.reason, *decision.warnings)))
        # No run key: it would suppress the run that a reset cursor requests again.
        return dg.SensorResult(
            run_requests=[dg.RunRequest(tags={"keyfold/new": str(decision.new)})],
            asset_events=[dg.AssetMaterialization(asset, metadata=decision.metadata)],
            cursor=decision.cursor,
        )

    return new_data


def unfinished_run(instance: dg.DagsterInstance, tags: Mapping[str, str]) -> str | None:
    """Return the id of a queued or running run with these tags, or None."""
    records = instance.get_run_records(dg.RunsFilter(tags=dict(tags), statuses=_UNFINISHED), limit=1)
    return records[0].dagster_run.run_id if records else None
