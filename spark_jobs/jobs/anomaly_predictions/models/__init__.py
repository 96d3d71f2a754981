"""The registered anomaly models by name. A model scores how unusual a value is, given the values that it has learned."""

from spark_jobs.jobs.anomaly_predictions.models.ewma import Ewma
from spark_jobs.jobs.anomaly_predictions.models.protocol import Model
from spark_jobs.jobs.anomaly_predictions.models.rarity import Rarity

_MODELS: tuple[Model, ...] = (Rarity(), Ewma())
MODELS = {model.name: model for model in _MODELS}
