"""Plots that every keyed job has, and what plots are drawn with."""
