"""Expectations on `ride_meter_jumps_checked`; see `checked_events`."""

from expectations.checked_events import expectations_for
from keyfold.suite import Suite

EXPECTATIONS: Suite = expectations_for(("ride_id",))
