"""Simulate events of every stream in bulk, with a known number of faults."""

from spark_jobs.simulation.rides import ride_points_table
from spark_jobs.simulation.run import SIMULATORS, SimulationSummary, simulate

__all__ = ["SIMULATORS", "SimulationSummary", "ride_points_table", "simulate"]
