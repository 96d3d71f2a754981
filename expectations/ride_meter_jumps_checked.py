"""What holds for `ride_meter_jumps_checked`: what holds for every such account."""

from expectations.checked_events import expectations_for
from keyfold.suite import Suite

EXPECTATIONS: Suite = expectations_for(("ride_id",))
