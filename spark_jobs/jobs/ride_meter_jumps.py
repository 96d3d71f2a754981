"""Find rides whose meter jumps: it rises between two readings by more than a taxi can earn in that time.

A pattern (`patterns`): a reading and the next one of its ride, at most a minute later, which is greater by more than `jump`.
After a longer gap the ride may have earned the difference. Points without a reading are skipped.
"""

from datetime import timedelta

import polars as pl

from keyfold import Duration, EventTimeParameters, KeyedJob, parameter, with_parameters
from keyfold.operators import Next, Pattern, pattern
from spark_jobs.streams import RIDE_POINTS


class RideMeterJumpsParameters(EventTimeParameters):
    """Parameters of `ride_meter_jumps`."""

    jump: float = parameter(
        3.0,
        gt=0,
        description="Smallest rise of the meter that is a jump, in dollars; New York's meters add about 0.75 a minute",
        change="migrate",
    )
    within: Duration = parameter(
        timedelta(minutes=1), description="From the one reading to the next at most", change="migrate"
    )


def build(parameters: RideMeterJumpsParameters) -> KeyedJob:
    """Two neighbouring readings of a ride's meter, of which the second is far above the first."""
    reading = pl.col("meter_reading")
    is_read = reading.is_not_null()
    jumped = Next(is_read, where=reading - pl.col("first_meter_reading") > parameters.jump)
    return pattern(
        "ride_meter_jumps",
        RIDE_POINTS,
        {"jump": Pattern({"first": is_read, "last": jumped}, within=parameters.within)},
        key="ride_id",
        keep=["point_idx", "meter_reading"],
    )


RIDE_METER_JUMPS = with_parameters(build)
