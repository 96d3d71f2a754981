"""Models of a metric, by name: each says how unusual a value is, given those that it has learned."""

from keyfold import KeyfoldError
from spark_jobs.jobs.anomaly_predictions.models.ewma import Ewma
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
from spark_jobs.jobs.anomaly_predictions.models.rarity import Rarity

_MODELS: tuple[Model, ...] = (Rarity(), Ewma())
MODELS = {model.name: model for model in _MODELS}


def find_model(name: str) -> Model:
    """The model of a name; raises KeyfoldError, listing those there are, when there is none."""
    if name not in MODELS:
        raise KeyfoldError(f"no model {name!r}; models there: {', '.join(MODELS)}")
    return MODELS[name]
