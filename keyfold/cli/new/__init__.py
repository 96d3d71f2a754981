"""`keyfold new`: what is always the same about a stream or a job is written; what is yours is left to edit."""
