"""Patterns over a key's events: `a` followed by `b`, `a` without `b`, `n` times `a`; and a whole job made of them."""

from spark_jobs.jobs.patterns.pattern_job import pattern_job
from spark_jobs.jobs.patterns.vocabulary import FollowedBy, Pattern, Times, Without

__all__ = ["FollowedBy", "Pattern", "Times", "Without", "pattern_job"]
