"""Encode rows as blobs, hash keys, and compute and convert values exactly."""
