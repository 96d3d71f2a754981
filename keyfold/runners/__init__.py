"""Execute the middle of a batch: a map, a shuffle by state partition, and a map. On Spark, or in this process."""

from keyfold.runners.choice import Choice, Runners
from keyfold.runners.runner import Runner

__all__ = ["Choice", "Runner", "Runners"]
