"""The one error type that people are meant to read."""

import re


class KeyfoldError(Exception):
    """Something a person can put right; the message says what was wrong, where, and what to do.

    The command line prints it without a traceback, and Dagster shows it as the run's failure.
    """


def first_line(error: BaseException, characters: int = 600) -> str:
    """What a library's error says first, and the reason in it; some go on with all that they knew.

    The reason is the system's, or the status by which a server refused. Colours, which Delta's library adds, are left out.
    """
    text = re.sub(r"\x1b\[[0-9;]*m|\u21b3", "", str(error))
    lines = [line.strip() for line in text.strip().splitlines()] or [type(error).__name__]
    reason = next((line for line in lines[1:] if "(os error " in line or re.fullmatch(r"[45]\d\d [A-Z].*", line)), "")
    return f"{lines[0]}: {reason}"[:characters] if reason else lines[0][:characters]
