"""Anomaly predictions: the job, what it learns and when, and the models it chooses from."""
