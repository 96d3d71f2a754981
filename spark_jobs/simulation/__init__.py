"""Sample events for every stream: realistic, made in bulk, with counted faults."""

from spark_jobs.simulation.contract import SimulationSummary
from spark_jobs.simulation.rides import ride_points_table
from spark_jobs.simulation.run import SIMULATORS, simulate

__all__ = ["SIMULATORS", "SimulationSummary", "ride_points_table", "simulate"]
