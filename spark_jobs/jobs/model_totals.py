"""Model totals: of every model, how many pieces of it were bought so far, and in how many purchases.

A purchase names a list of models and belongs to the total of each (`keyed.copies`): one arrival updates several states.
One that names a model twice is one purchase of it; its quantity counts in full for each model, since nothing says how it
is shared among them. What names no model (no list, an empty one, empty texts) has a total of its own, under the empty
text, so that no purchase is lost.

State is one row a model, the total itself: a sum that is kept without its events. Totals never close, and a sum is the
same in whatever order and however split it is added up: nothing waits, and nothing is late. The combiner adds up purchases
before they are shuffled.
"""

from datetime import timedelta

import polars as pl
import pyarrow as pa

from keyfold import JobParameters, JobTemplate, KeyedJob, required
from keyfold.keyed.job import KeysOf
from keyfold.operators.aggregation import total, totals
from keyfold.stream import TIMESTAMP
from spark_jobs.streams import SALES

NO_MODEL = ""
"""Stands for the model of purchases that name none."""

MODEL_PURCHASE = pa.schema(
    [
        required("model", pa.string(), "The model; empty where none is named", made_of="models"),
        required("time", TIMESTAMP, "Event time of the newest of them (UTC)", made_of="time"),
        required("quantity", pa.int64(), "Pieces bought less pieces returned", made_of="quantity"),
        required("purchases", pa.int64(), "How many purchases the row stands for", made_of="time"),
    ]
)
"""A purchase as one of its models sees it, or those of a model that are added up already."""

MODEL_TOTAL = pa.schema(
    [
        required("model", pa.string(), "The model; empty for the purchases that name none", made_of="models"),
        required("quantity", pa.int64(), "Pieces bought less pieces returned, in all", made_of="quantity models"),
        required("purchases", pa.int64(), "Purchases and returns that name it", made_of="models"),
        required("latest", TIMESTAMP, "When it was last bought or returned (UTC)", made_of="time"),
    ]
)


class ModelTotalsParameters(JobParameters):
    """Parameters of `model_totals`."""


def build(parameters: ModelTotalsParameters) -> KeyedJob:
    """Make the job of its parameters."""
    return totals(
        "model_totals",
        {"quantity": total("quantity")},
        stream=SALES,
        key=("model",),
        keys_of=KeysOf("model", _named(pl.col("models")), otherwise=NO_MODEL),
        event_time="time",
        # No result depends on it: nothing waits, and nothing is late.
        watermark_delay=timedelta(0),
        events=MODEL_PURCHASE,
        output=MODEL_TOTAL,
        counted="purchases",
        latest="latest",
        **parameters.settings(),
    )


MODEL_TOTALS = JobTemplate(
    "model_totals",
    "Of every model, the pieces bought so far and the purchases that name it; a purchase of several counts for each.",
    ModelTotalsParameters,
    build,
)


def _named(models: pl.Expr) -> pl.Expr:
    """Without the texts that name nothing."""
    return models.list.eval(pl.element().filter(pl.element() != NO_MODEL))
