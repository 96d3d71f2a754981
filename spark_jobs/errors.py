"""The one error type that people are meant to read."""


class KeyfoldError(Exception):
    """Something a person can put right; the message says what was wrong, where, and what to do.

    The command line prints it without a traceback, and Dagster shows it as the run's failure.
    """


def first_line(error: BaseException, characters: int = 600) -> str:
    """What a library's error says first, and the system's reason in it; some go on with all that they knew."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    reason = next((line for line in lines[1:] if "(os error " in line), "")
    return f"{lines[0]}: {reason}"[:characters] if reason else lines[0][:characters]
