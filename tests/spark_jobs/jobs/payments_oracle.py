"""Payments of a card in two cities, found in plain Python."""

from datetime import timedelta


def by_two_loops(payments):
    """The pairs, found in plain Python: each payment with the first one in another city within ten minutes."""
    expected = []
    ordered = sorted(payments, key=lambda one: (one["time"], one["city"], one["amount"]))
    for at, first in enumerate(ordered):
        for last in ordered[at + 1 :]:
            if last["time"] - first["time"] > timedelta(minutes=10):
                break
            if last["card"] == first["card"] and last["city"] != first["city"]:
                expected.append((first["payment_id"], last["payment_id"]))
                break
    return sorted(expected)
