"""Build sensors that start one run for all new data of a source.

A source (files: `new_data`, topics: `topic_lag`) is polled with the last tick's cursor, and decides without side effects
whether there is new data.
"""

from collections.abc import Callable
from datetime import timedelta

import dagster as dg

from keyfold import ingestion
from keyfold.dagster.assets.streams import landing_key
from keyfold.dagster.automation.new_data import FileSource, Source
from keyfold.dagster.automation.topic_lag import TopicSource
from keyfold.ingestion.landing import find_landing, landing_folder
from keyfold.ingestion.sources.files import SETTLE
from keyfold.ingestion.sources.kafka.topic import KafkaTopic, topic_state
from keyfold.lakehouse import Lakehouse
from keyfold.stream import Stream

_UNFINISHED = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def landing_sensor(stream: Stream, job: str, settle: timedelta = SETTLE) -> dg.SensorDefinition:
    """Build the sensor that starts one run of a job for all landed files of a stream."""

    def source(lakehouse: Lakehouse) -> Source:
        folder = landing_folder(lakehouse, stream.name)
        return FileSource(
            folder,
            settle,
            stream.done_marker,
            lambda: ingestion.known_files(lakehouse, stream.name, folder),
            lambda: ingestion.is_unfinished(lakehouse, stream.name),
        )

    return new_data_sensor(f"{stream.name}_landed", job, landing_key(stream.name), source)


def topic_sensor(stream: Stream, topic: KafkaTopic, job: str) -> dg.SensorDefinition:
    """Build the sensor that starts a job when a stream's topic has unread messages."""

    def source(lakehouse: Lakehouse) -> Source:
        return TopicSource(
            lambda: topic_state(topic),
            lambda: ingestion.read_topics(lakehouse, stream.name).get(topic.source),
            lambda: ingestion.is_unfinished(lakehouse, stream.name),
        )

    return new_data_sensor(f"{stream.name}_lags", job, landing_key(stream.name), source)


def source_sensor(stream: Stream, job: str) -> dg.SensorDefinition:
    """Build the sensor of a stream's source: its topic, if the environment names one, else its landing folder.

    Raises:
        KeyfoldError: a setting of Kafka is wrong.
    """
    landing = find_landing(stream.name)
    return topic_sensor(stream, landing, job) if isinstance(landing, KafkaTopic) else landing_sensor(stream, job)


def new_data_sensor(
    name: str, job: str, asset: dg.AssetKey, source: Callable[[Lakehouse], Source]
) -> dg.SensorDefinition:
    """Build a sensor that starts a job when a source has new data.

    It starts no run while a run of the job is queued or running, so runs do not queue up; the next run reads what arrives
    meanwhile. It is stopped by default: opening Dagster's pages must not start Spark.

    Args:
        name: the sensor's name.
        job: the job that reads the source.
        asset: the external asset of the source, on which new data is reported.
        source: builds the source.
    """

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
        decision = source(lakehouse).poll(context.cursor)
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
