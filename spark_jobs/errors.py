"""The one error type that people are meant to read."""


class KeyfoldError(Exception):
    """Something a person can put right; the message says what was wrong, where, and what to do.

    The command line prints it without a traceback, and Dagster shows it as the run's failure.
    """


def first_line(error: BaseException, characters: int = 600) -> str:
    """What a library's error says first; some go on with its stack, or with all that it knew."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:characters]
