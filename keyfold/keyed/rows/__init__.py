"""Rows as blobs, keys as hashes, and values that stay exact."""
