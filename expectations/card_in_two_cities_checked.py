"""Expectations on `card_in_two_cities_checked`; see `checked_events`."""

from expectations.checked_events import expectations_for
from keyfold.suite import Suite

EXPECTATIONS: Suite = expectations_for(("card",))
