"""Erase values wherever the lakehouse keeps them."""
