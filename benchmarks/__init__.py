"""Benchmarks: figures as ratios to something that runs beside, never as a timed test."""
