"""The metrics: values of any number of series as they are measured, and how unusual they are."""

from assets.keyed_asset import TableDoc, conservation_check, keyed_assets
from assets.plots.anomalies import plot_anomalies
from assets.streams import stream_assets, stream_check
from spark_jobs.jobs.anomaly_predictions.job import ANOMALY_PREDICTIONS
from spark_jobs.streams import METRICS

GROUP = "metrics"
OWNERS = ("team:metrics",)
STREAM = METRICS
JOBS = (ANOMALY_PREDICTIONS,)

_PREDICTION = {
    "key": "Series that the value is of",
    "event_time": "When the value was measured (UTC)",
    "value": "The value, in the series' own unit",
    "expected": "What the model expected; NULL until it knows enough",
    "score": "How unusual the value is, from 0 (as expected) to 1",
    "label": "anomalous above the threshold, else normal",
    "events_learned": "Values of the series that the model which predicted it had learned (with `complete_window` its own window too)",
}
_OF_ALL = ("timestamp", "value")
_MADE_OF = {
    "key": ("key",),
    "event_time": ("timestamp",),
    "value": ("value",),
    **dict.fromkeys(("expected", "score", "label", "events_learned"), _OF_ALL),
}

ASSETS = [
    *stream_assets(
        METRICS,
        group=GROUP,
        owners=OWNERS,
        description="Valid values of metrics, each once: typed, checked, de-duplicated by series, time and value.",
    ),
    keyed_assets(
        ANOMALY_PREDICTIONS,
        group=GROUP,
        owners=OWNERS,
        tables={
            "anomaly_predictions": TableDoc(
                ANOMALY_PREDICTIONS.description,
                {
                    **_PREDICTION,
                    "previous_label": "Label of the series' row before in this table; NULL for its first, and after its model has retired",
                },
                {**_MADE_OF, "previous_label": _OF_ALL},
            ),
            "latest_predictions": TableDoc(
                "The last prediction of each series, emitted or not, with the band of usual values.",
                {**_PREDICTION, "low": "Lower end of the usual values", "high": "Upper end of the usual values"},
                {**_MADE_OF, "low": _OF_ALL, "high": _OF_ALL},
            ),
            "retired_models": TableDoc(
                "One row a model that was forgotten, after `forget_after` without a value.",
                {
                    "key": "Series that it was of",
                    "events_learned": "Values that it had learned",
                    "last_event_time": "When the last of them was measured (UTC)",
                    "retired_at": "Event time at which it was forgotten (UTC)",
                },
                {"key": ("key",), **dict.fromkeys(("events_learned", "last_event_time", "retired_at"), ("timestamp",))},
            ),
        },
        plot=plot_anomalies,
    ),
]

CHECKS = [stream_check(METRICS), conservation_check(ANOMALY_PREDICTIONS)]
