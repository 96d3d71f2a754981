"""The metrics group: measured values of many series, and predictions of anomalies."""

from assets.plots.anomalies import plot_anomalies
from keyfold.dagster.assets.keyed_asset import JobAssets
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.streams import METRICS

GROUP = "metrics"
OWNERS = ("team:metrics",)
STREAM = METRICS
JOBS = [
    JobAssets(ANOMALY_PREDICTIONS, plot=plot_anomalies),
]
