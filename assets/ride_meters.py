"""Jumps of ride meters; part of the rides group, whose stream the job reads."""

from assets.plots.rides import plot_meter_jumps
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from spark_jobs.jobs.ride_meter_jumps import RIDE_METER_JUMPS

GROUP = "rides"
OWNERS = ("team:rides",)
JOBS = (RIDE_METER_JUMPS,)

ASSETS = [keyed_assets(RIDE_METER_JUMPS, group=GROUP, owners=OWNERS, plot=plot_meter_jumps)]
CHECKS = [conservation_check(RIDE_METER_JUMPS)]
