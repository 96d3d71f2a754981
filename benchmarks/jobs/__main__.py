"""`python -m benchmarks.jobs [JOB …]`: the step of each job beside a plain Polars computation of the same answer."""

import sys

from benchmarks.jobs import (
    anomaly_predictions,
    card_in_two_cities,
    event_index,
    fleet_days,
    fleet_warnings,
    model_totals,
    moving_averages,
    purchase_totals,
    ride_meter_jumps,
    top_products,
    vehicle_trips,
)

RACES = {
    "moving_averages": moving_averages.main,
    "anomaly_predictions": anomaly_predictions.main,
    "vehicle_trips": vehicle_trips.main,
    "fleet_days": fleet_days.main,
    "fleet_warnings": fleet_warnings.main,
    "top_products": top_products.main,
    "purchase_totals": purchase_totals.main,
    "model_totals": model_totals.main,
    "event_index": event_index.main,
    "ride_meter_jumps": ride_meter_jumps.main,
    "card_in_two_cities": card_in_two_cities.main,
}

if unknown := set(sys.argv[1:]) - set(RACES):
    sys.exit(f"no benchmark of {', '.join(sorted(unknown))}; there are: {', '.join(RACES)}")
wanted = sys.argv[1:] or list(RACES)
# Races that take options of their own read them from the command line too.
del sys.argv[1:]
for race in wanted:
    RACES[race]()
