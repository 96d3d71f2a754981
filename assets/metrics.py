"""The metrics group: measured values of many series, and predictions of anomalies."""

from assets.plots.anomalies import plot_anomalies
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from keyfold.dagster.assets.streams import stream_assets, stream_check
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.streams import METRICS

GROUP = "metrics"
OWNERS = ("team:metrics",)
STREAM = METRICS
JOBS = (ANOMALY_PREDICTIONS,)

ASSETS = [
    *stream_assets(METRICS, group=GROUP, owners=OWNERS),
    keyed_assets(ANOMALY_PREDICTIONS, group=GROUP, owners=OWNERS, plot=plot_anomalies),
]
CHECKS = [stream_check(METRICS), conservation_check(ANOMALY_PREDICTIONS)]
