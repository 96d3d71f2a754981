"""Jumps of ride meters; part of the rides group, whose stream the job reads."""

from assets.plots.rides import plot_meter_jumps
from keyfold.dagster.assets.keyed_asset import JobAssets
from spark_jobs.jobs.ride_meter_jumps import RIDE_METER_JUMPS

GROUP = "rides"
OWNERS = ("team:rides",)
JOBS = [JobAssets(RIDE_METER_JUMPS, plot=plot_meter_jumps)]
