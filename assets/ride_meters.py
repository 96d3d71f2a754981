"""Meters that jump: of the group of the rides, whose stream they read."""

from assets.plots.rides import plot_meter_jumps
from keyfold.dagster.assets.keyed_asset import conservation_check, keyed_assets
from spark_jobs.jobs.ride_meter_jumps import RIDE_METER_JUMPS

GROUP = "rides"
OWNERS = ("team:rides",)
JOBS = (RIDE_METER_JUMPS,)

ASSETS = [keyed_assets(RIDE_METER_JUMPS, group=GROUP, owners=OWNERS, plot=plot_meter_jumps)]
CHECKS = [conservation_check(RIDE_METER_JUMPS)]
