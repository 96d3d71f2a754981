"""What every model keeps, whichever it is: a new one has only to be registered to be held to it."""

import math
from datetime import timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyfold.keyed.rows.codec import decode, encode, polars_schema
from spark_jobs.jobs.anomaly_predictions.models import MODELS
from spark_jobs.jobs.anomaly_predictions.models.protocol import PREDICTION
from tests.examples import examples
from tests.shop import START

EVENTS = {"key": pl.String, "event_time": pl.Datetime("us", "UTC"), "value": pl.Float64}
RESERVED = {"key", "timestamp", "value", "deadline", "role", "events_learned", "last_event_time", "interval"}
EVERY_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))


def frame(drawn):
    """Events of (key, minutes, value), in the models' order."""
    rows = [(key, START + timedelta(minutes=minutes), float(value)) for key, minutes, value in drawn]
    return pl.DataFrame(rows, schema=EVENTS, orient="row").sort("key", "event_time", "value")


def models_of(model, events):
    return model.initial(events["key"].unique().sort())


def assert_same_bits(left, right):
    assert left.schema == right.schema
    for one, other in zip(left, right, strict=True):
        assert bits(one) == bits(other), one.name


def bits(column):
    """A column's values as they lie in memory, nulls apart: -0.0 is not 0.0."""
    if column.dtype == pl.List:
        return column.list.len().to_list(), bits(column.explode())
    if not column.dtype.is_numeric():
        return column.to_list()
    return column.is_null().to_list(), column.fill_null(strategy="zero").to_numpy().tobytes()


def bump_series(keys, length, seed=7):
    """Values around a level of the key's own, with a bump of a thousand now and then."""
    random = np.random.default_rng(seed)
    return frame(
        (f"key-{key}", 5 * minute, 50 * key + random.normal() + 1000 * (random.random() < 0.01))
        for key in range(keys)
        for minute in range(length)
    )


numbers = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e6, 1e6), st.floats(allow_nan=False, allow_infinity=False)
)
some_events = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3000), numbers), min_size=1, max_size=60).map(
    frame
)


@EVERY_MODEL
@examples(60)
@given(events=some_events, cuts=st.lists(st.integers(0, 3000), max_size=4))
def test_any_split_gives_the_same_bits(model, events, cuts):
    whole, at_once = model.predict_then_learn(models_of(model, events), events)
    models, parts = models_of(model, events), []
    times = [START, *(START + timedelta(minutes=cut) for cut in sorted(cuts)), START + timedelta(days=9)]
    for since, until in pairwise(times):
        part = events.filter(pl.col("event_time").is_between(since, until, closed="left"))
        predicted, models = model.predict_then_learn(models, part)
        parts.append(part.hstack(predicted))
        models = decode(encode(models))
    assert_same_bits(pl.concat(parts).sort("key", "event_time", "value"), events.hstack(whole))
    assert_same_bits(models, at_once)


@EVERY_MODEL
@examples(40)
@given(events=some_events)
def test_keys_do_not_touch(model, events):
    together, models = model.predict_then_learn(models_of(model, events), events)
    alone = events.filter(key="a")
    predicted, learned = model.predict_then_learn(models_of(model, alone), alone)
    assert_same_bits(predicted, together.filter(events["key"] == "a"))
    assert_same_bits(learned, models.filter(key="a"))


@EVERY_MODEL
@examples(40)
@given(before=some_events, events=some_events)
def test_a_prediction_without_learning_is_that_of_the_event_alone(model, before, events):
    every = pl.concat([before, events])
    _, models = model.predict_then_learn(models_of(model, every), before)
    frozen = model.predict(models, events)
    for row in range(events.height):
        alone, _ = model.predict_then_learn(models, events[row])
        assert_same_bits(frozen[row], alone)


@EVERY_MODEL
@examples(60)
@given(events=some_events)
def test_predictions_are_numbers_and_scores_lie_between_zero_and_one(model, events):
    predicted, models = model.predict_then_learn(models_of(model, events), events)
    assert predicted.schema == polars_schema(PREDICTION)
    assert predicted.height == events.height
    assert predicted["score"].is_between(0, 1).all()
    for row in predicted.iter_rows(named=True):
        if row["expected"] is None:
            assert (row["low"], row["high"], row["score"]) == (None, None, 0)
        else:
            assert row["low"] <= row["expected"] <= row["high"]
            assert all(map(math.isfinite, row.values()))
    assert dict(models.schema) == {"key": pl.String, **polars_schema(model.state), "events_learned": pl.Int64}
    assert models["events_learned"].sum() == events.height


@EVERY_MODEL
def test_models_without_events_stay_as_they_were(model):
    events = bump_series(keys=3, length=20)
    _, models = model.predict_then_learn(models_of(model, events), events)
    some = events.filter(key="key-1")
    _, again = model.predict_then_learn(models, some)
    assert_same_bits(again.filter(pl.col("key") != "key-1"), models.filter(pl.col("key") != "key-1"))
    assert_same_bits(model.predict_then_learn(models, events.clear())[1], models)
    assert model.predict(models, events.clear()).schema == polars_schema(PREDICTION)


@EVERY_MODEL
def test_models_stay_small_however_much_they_learn(model):
    events = bump_series(keys=1, length=3000)
    _, models = model.predict_then_learn(models_of(model, events), events)
    assert models.estimated_size() < 16_384


@EVERY_MODEL
def test_a_jump_in_a_steady_metric_is_called_anomalous_and_usual_values_are_not(model):
    random = np.random.default_rng(3)
    values = random.normal(100, 1, size=600)
    values[500] = 160
    events = frame(("steady", 60 * hour, value) for hour, value in enumerate(values))
    predicted, _ = model.predict_then_learn(models_of(model, events), events)
    assert predicted["score"][500] > model.threshold
    usual = np.delete(predicted["score"].to_numpy()[200:], 300)
    assert (usual > model.threshold).mean() < 0.01


@EVERY_MODEL
def test_a_constant_metric_is_as_expected_and_its_first_change_is_not(model):
    events = frame(("flat", 5 * step, 0.1 if step < 300 else 0.2) for step in range(301))
    predicted, _ = model.predict_then_learn(models_of(model, events), events)
    assert predicted["score"][:300].max() < 0.01
    assert predicted["score"][300] > model.threshold


@EVERY_MODEL
def test_a_model_says_what_a_job_must_know_of_it(model):
    assert model.name in MODELS
    assert model.version >= 1
    assert 0 < model.threshold < 1
    assert not set(model.state.names) & (RESERVED | {"label", "score"})


@pytest.mark.parametrize("keys", [["a", "x"], ["a", "b", "a"]])
def test_events_without_a_model_or_out_of_order_are_refused(keys):
    events = pl.concat([frame([(key, 0, 1.0)]) for key in keys])
    with pytest.raises(ValueError, match="every key of the events needs one model"):
        MODELS["ewma"].predict(MODELS["ewma"].initial(pl.Series(["a", "b"])), events)
