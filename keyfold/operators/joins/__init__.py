"""Operators with two inputs, whose state is bounded and is freed by the watermark."""
