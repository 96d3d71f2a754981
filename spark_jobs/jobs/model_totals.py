"""Total the pieces bought and the purchases of each model.

A purchase has a list of models and counts for each of them, so one event updates several keys. A model that is listed twice
counts once. The quantity counts in full for each model, since the stream does not say how it is divided. Purchases without a
model (no list, an empty list, empty texts) have a total under the empty text, so that no purchase is lost.

State is one row per model: the total, without its events. Totals never close, and a sum does not depend on order or batch
boundaries, so no event waits and none is late. The combiner adds purchases before the shuffle.
"""

import polars as pl
import pyarrow as pa

from keyfold import TIMESTAMP, JobParameters, KeyedJob, required, with_parameters
from keyfold.operators import sum, totals
from spark_jobs.streams import SALES

NO_MODEL = ""
"""The key of purchases without a model."""

MODEL_TOTAL = pa.schema(
    [
        required("model", pa.string(), "The model; empty for the purchases that name none"),
        required("quantity", pa.int64(), "Pieces bought less pieces returned, in all"),
        required("purchases", pa.int64(), "Purchases and returns that name it"),
        required("latest", TIMESTAMP, "When it was last bought or returned (UTC)"),
    ]
)


def build(parameters: JobParameters) -> KeyedJob:
    """The pieces bought and the purchases of every model; a purchase of several models counts for each."""
    return totals(
        "model_totals",
        # No result depends on the watermark: no event waits, and none is late.
        SALES.explode("model", _named(pl.col("models")), otherwise=NO_MODEL),
        {"quantity": sum("quantity")},
        key="model",
        output=MODEL_TOTAL,
        counted="purchases",
        latest="latest",
    )


def _named(models: pl.Expr) -> pl.Expr:
    """Remove empty texts."""
    return models.list.eval(pl.element().filter(pl.element() != NO_MODEL))


MODEL_TOTALS = with_parameters(build)
