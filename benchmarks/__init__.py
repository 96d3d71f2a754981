"""Benchmarks. Figures are ratios to something measured in the same run; no test depends on timing."""
