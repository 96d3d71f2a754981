"""Signals that come while something must not be cut short take effect right after it."""

import signal
from unittest.mock import MagicMock

import pytest

from keyfold.session.interrupts import signals_kept_waiting, work_ends_on_interrupt


def test_an_interrupt_takes_effect_at_the_end():
    reached = []

    def interrupted():
        with signals_kept_waiting():
            signal.raise_signal(signal.SIGINT)
            reached.append("the end")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == ["the end"]


def test_handlers_are_as_they_were_and_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with signals_kept_waiting():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_sessions_that_end_in_any_order_leave_the_signals_to_those_that_go_on():
    before = signal.set_wakeup_fd(-1)
    older, younger, youngest = (work_ends_on_interrupt(MagicMock()) for _ in range(3))
    for one in (older, younger, youngest):
        one.__enter__()
    try:
        mine = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(mine)
        younger.__exit__(None, None, None)
        now = signal.set_wakeup_fd(-1)
        assert now == mine
        signal.set_wakeup_fd(now)
        for one in (youngest, older):  # the one before the youngest is over
            one.__exit__(None, None, None)
    finally:
        signal.set_wakeup_fd(before)
