"""Find patterns in a key's events: `a` followed by `b`, `a` without `b`, `n` times `a`."""

from keyfold.operators.patterns.pattern_job import pattern_job
from keyfold.operators.patterns.vocabulary import FollowedBy, Pattern, Times, Without

__all__ = ["FollowedBy", "Pattern", "Times", "Without", "pattern_job"]
