"""The registered anomaly models by name. A model scores how unusual a value is, given the values that it has learned."""

from keyfold import KeyfoldError
from spark_jobs.jobs.anomaly_predictions.models.ewma import Ewma
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
from spark_jobs.jobs.anomaly_predictions.models.rarity import Rarity

_MODELS: tuple[Model, ...] = (Rarity(), Ewma())
MODELS = {model.name: model for model in _MODELS}


def find_model(name: str) -> Model:
    """Find a model by name.

    Raises:
        KeyfoldError: no model has this name; the message lists the models.
    """
    if name not in MODELS:
        raise KeyfoldError(f"no model {name!r}; models there: {', '.join(MODELS)}")
    return MODELS[name]
