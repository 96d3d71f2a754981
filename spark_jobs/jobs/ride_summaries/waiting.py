"""Rides whose new points only wait: nothing of the ride closes, and its rows need not be written again for them."""

import polars as pl

from spark_jobs.jobs.ride_summaries.stretches import Rules

_RIDE = ("ride_id",)


def waiting(state: pl.DataFrame, points: pl.DataFrame, rules: Rules) -> pl.DataFrame:
    """The ids of the rides to whose rows their points are added as they are.

    `cut` would close none of these rides, and leave their rows as they are but for those that the watermark has passed, which
    it would sum up. They wait until they are half of a ride's rows, so that a row is written twice, and not once a batch.

    Args:
        state: rows of the rides.
        points: new ones, none of them late.
        rules: of the batch.
    """
    none = points.select(*_RIDE).clear()
    # To look at all rows of state pays where most of what is written would be rows that are there already.
    if rules.timeout is None or rules.silence is None or state.height <= 2 * points.height:
        return none
    is_dropoff = (pl.col("ride_status") == "dropoff").fill_null(value=False).any()
    came = points.group_by(_RIDE).agg(
        first=pl.col("timestamp").min(), last=pl.col("timestamp").max(), drops_off=is_dropoff
    )
    rides = state.group_by(_RIDE).agg(
        pl.len().alias("rows"),
        (pl.col("timestamp") <= rules.watermark).sum().alias("passed"),
        pl.col("timestamp").min().alias("begins"),
        pl.col("timestamp").max().alias("ends"),
        pl.col("deadline").min(),
        is_dropoff.alias("dropped_off"),
        pl.col("closed_at").is_not_null().any().alias("is_closed"),
    )
    ends, begins = pl.max_horizontal("ends", "last"), pl.min_horizontal("begins", "first")
    only_waits = (
        ~pl.col("drops_off")
        & ~pl.col("dropped_off")
        & ~pl.col("is_closed")
        & (pl.col("deadline") > rules.watermark)
        & (ends + rules.timeout > rules.watermark)
        # No two points of it are further apart than that.
        & (ends - begins <= rules.silence)
        & (2 * pl.col("passed") < pl.col("rows"))
    )
    return rides.join(came, on=_RIDE, how="inner").filter(only_waits).select(*_RIDE)
