"""Build the sensors that start one run for all new data of a source: a landing folder or a topic (`new_data` decides)."""

import time
from collections.abc import Callable
from datetime import timedelta

import dagster as dg

from keyfold import ingestion
from keyfold.dagster.assets.streams import landing_key
from keyfold.dagster.automation.new_data import Decision, decide_on_messages, look_at_folder
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


def source_sensor(stream: Stream, job: str, settle: timedelta = SETTLE) -> dg.SensorDefinition:
    """Build the sensor that starts a job when a stream's source has new data: its topic if the environment names one, else its folder.

    It starts no run while a run of the job is queued or running, so runs do not queue up; the next run reads what arrives
    meanwhile. It is stopped by default: opening Dagster's pages must not start runs.

    Args:
        stream: the stream.
        job: the job that ingests it.
        settle: how long a file without a marker must be unchanged to count as whole.

    Raises:
        KeyfoldError: a setting of Kafka is wrong.
    """

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
        return _sensor(f"{name}_landed", job, landing_key(name), look_at_files)

    def look_at_topic(lakehouse: Lakehouse, cursor: str | None) -> Decision:
        now = time.time_ns()
        try:
            state = topic_state(landing)
        except KeyfoldError as error:
            return Decision(cursor, reason=str(error))
        read = ingestion.read_topics(lakehouse, name).get(landing.source)
        return decide_on_messages(state, read, cursor, now, unfinished=ingestion.is_unfinished(lakehouse, name))

    return _sensor(f"{name}_lags", job, landing_key(name), look_at_topic)


def _sensor(
    name: str, job: str, asset: dg.AssetKey, look: Callable[[Lakehouse, str | None], Decision]
) -> dg.SensorDefinition:
    @dg.sensor(
        name=name,
        job_name=job,
        minimum_interval_seconds=5,  # as often as the daemon looks; a tick only lists one folder, or asks Kafka once
        default_status=dg.DefaultSensorStatus.STOPPED,
        description=f"Starts `{job}` when there is new data in {asset.to_user_string()}.",
    )
    def new_data(
        context: dg.SensorEvaluationContext, lakehouse: dg.ResourceParam[Lakehouse]
    ) -> dg.SensorResult | dg.SkipReason:
        if waiting := unfinished_run(context.instance, job):
            return dg.SkipReason(f"run {waiting} of {job} has not finished; the next run reads newer data")
        decision = look(lakehouse, context.cursor)
        for warning in decision.warnings:
            context.log.warning(warning)
        if not decision.new:
            if decision.cursor is not None:
                context.update_cursor(decision.cursor)
            return dg.SkipReason("; ".join((decision.reason, *decision.warnings)))
        # No run key: it would suppress the run that a reset cursor requests again.
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(tags={"keyfold/new": str(decision.new), "keyfold/attempt": str(decision.attempt)})
            ],
            asset_events=[dg.AssetMaterialization(asset, metadata=decision.metadata)],
            cursor=decision.cursor,
        )

    return new_data


def unfinished_run(instance: dg.DagsterInstance, job: str) -> str | None:
    """Return the id of a queued or running run of a job, or None."""
    records = instance.get_run_records(dg.RunsFilter(job_name=job, statuses=_UNFINISHED), limit=1)
    return records[0].dagster_run.run_id if records else None
