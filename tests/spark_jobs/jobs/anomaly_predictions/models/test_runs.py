"""The runs of each key's events, and which model is theirs."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from spark_jobs.jobs.anomaly_predictions.models.runs import key_runs

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EVENTS = {"key": pl.String, "value": pl.Float64, "event_time": pl.Datetime("us", "UTC")}


def frame(drawn):
    rows = [(key, value, EPOCH + timedelta(microseconds=time)) for key, value, time in drawn]
    return pl.DataFrame(rows, schema=EVENTS, orient="row")


def test_runs_say_where_each_keys_events_lie_and_which_model_is_theirs():
    models = pl.DataFrame({"key": ["a", "b", "c"]})
    runs = key_runs(models, frame([("a", 1.0, 0), ("a", 2.0, 1), ("c", 3.0, 0)]))
    assert [list(part) for part in runs] == [[0, 2], [2, 1], [0, 2], [0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize("keys", [["a", "x"], ["a", "b", "a"]])
def test_events_without_a_model_or_out_of_order_are_refused(keys):
    models = pl.DataFrame({"key": ["a", "b"]})
    with pytest.raises(ValueError, match="every key of the events needs one model"):
        key_runs(models, frame([(key, 1.0, 0) for key in keys]))
