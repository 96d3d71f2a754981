"""Predict anomalies of metrics: the job, its ways to learn, and its models."""
