"""Signals that come while something must not be cut short take effect right after it."""

import signal

import pytest

from keyfold.session.interrupts import signals_kept_waiting


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
