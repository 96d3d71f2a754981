"""`python -m benchmarks.jobs [JOB …]`: compare steps with plain computations of the same results; see `on_spark` for other jobs."""

import sys

from benchmarks.jobs import (
    anomaly_predictions,
    card_in_two_cities,
    fleet_days,
    fleet_warnings,
    ride_meter_jumps,
    vehicle_trips,
)

RACES = {
    "anomaly_predictions": anomaly_predictions.main,
    "vehicle_trips": vehicle_trips.main,
    "fleet_days": fleet_days.main,
    "fleet_warnings": fleet_warnings.main,
    "ride_meter_jumps": ride_meter_jumps.main,
    "card_in_two_cities": card_in_two_cities.main,
}

if unknown := set(sys.argv[1:]) - set(RACES):
    sys.exit(f"no benchmark of {', '.join(sorted(unknown))}; there are: {', '.join(RACES)}")
wanted = sys.argv[1:] or list(RACES)
# Some of these benchmarks read their own options from the command line.
del sys.argv[1:]
for race in wanted:
    RACES[race]()
