"""Functions that jobs are made of: what nobody should write again."""
