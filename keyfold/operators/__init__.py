"""Operators: functions that make whole jobs, or parts of steps, such as joins and patterns."""
