"""What holds for `ride_meter_jumps_checked`: what holds for every such account."""

from expectations.checked_events import EXPECTATIONS

__all__ = ["EXPECTATIONS"]
