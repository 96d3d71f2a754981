"""For steps of one's own that keep the order which operators keep: events of a key by time, and its deadlines between them."""

from keyfold.operators.aggregation.cutting import cut_lifetimes
from keyfold.operators.ordering import Ordered, in_order
from keyfold.operators.stepping import step_job

__all__ = ["Ordered", "cut_lifetimes", "in_order", "step_job"]
