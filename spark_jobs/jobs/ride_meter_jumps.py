"""Rides whose meter jumps: from one reading to the next it rises by more than a taxi can earn in the time.

A pattern (`patterns`): a reading and the very next one of its ride, a minute later at most, that exceeds it by more than
`jump`. A longer gap says nothing: the ride may have earned it. Points without a reading are passed over.
"""

from datetime import timedelta

import polars as pl
from pydantic import Field

from keyfold import FollowedBy, JobTemplate, KeyedJob, pattern_job
from keyfold.keyed.job import Duration, EventTimeParameters
from spark_jobs.streams import RIDE_POINTS


class RideMeterJumpsParameters(EventTimeParameters):
    """Parameters of `ride_meter_jumps`."""

    jump: float = Field(
        3.0,
        gt=0,
        description="By more than this the meter must rise, in dollars: New York's meters add some 0.75 a minute",
    )
    within: Duration = Field(timedelta(minutes=1), description="From the one reading to the next at most")


def build(parameters: RideMeterJumpsParameters) -> KeyedJob:
    """Make the job of its parameters."""
    reading = pl.col("meter_reading")
    is_read = reading.is_not_null()
    return pattern_job(
        "ride_meter_jumps",
        stream=RIDE_POINTS,
        key=["ride_id"],
        patterns={
            "jump": FollowedBy(
                is_read,
                is_read,
                within=parameters.within,
                where=reading - pl.col("first_meter_reading") > parameters.jump,
                next_only=True,
            )
        },
        keep=["point_idx", "meter_reading"],
        **parameters.settings(),
        movable_parameters=frozenset({"jump", "within"}),
    )


RIDE_METER_JUMPS = JobTemplate(
    "ride_meter_jumps",
    "Two neighbouring readings of a ride's meter, of which the second is far above the first.",
    RideMeterJumpsParameters,
    build,
)
