"""The metrics group: measured values of many series, and predictions of anomalies."""

from assets.plots.anomalies import plot_anomalies
from keyfold import project_suites
from keyfold.dagster import JobAssets, keyfold_group
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.streams import METRICS

GROUP = keyfold_group(
    "metrics",
    owners=("team:metrics",),
    streams=[METRICS],
    jobs=[
        JobAssets(ANOMALY_PREDICTIONS, plot=plot_anomalies),
    ],
    suites=project_suites(),
)
