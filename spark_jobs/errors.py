"""The one error type that people are meant to read."""


class KeyfoldError(Exception):
    """Something a person can put right; the message says what was wrong, where, and what to do.

    The command line prints it without a traceback, and Dagster shows it as the run's failure.
    """
