"""Tests go alike however the suite was started: a shell has what it starts in the background ignore signals, and so has `nohup`.

A program that was told to ignore a signal passes that on to all that it starts; a handler is not passed on.
"""

import signal

_HANDLERS = {
    signal.SIGINT: signal.default_int_handler,
    # The suite itself goes on when its terminal is closed.
    signal.SIGHUP: lambda *_: None,
    signal.SIGQUIT: lambda *_: None,
}


def hear_signals() -> None:
    """Have processes that this one starts take signals as usual, and this one take interrupts, though it inherited otherwise."""
    for number, handler in _HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
