"""Detect columns with personal or secret data, by their names or their values."""

import re

import polars as pl

from keyfold.cli.new.names import words

_WORDS = re.compile(
    "e?mails?|phone|mobile|tel|telephone|fax|card|pan|iban|account|ssn|passport|licen[cs]e|surname|forename|"
    "firstname|lastname|fullname|username|birth|birthday|birthdate|dob|address|street|zip|postcode|password|secret|token|"
    "ip|customer|patient|user"
)
_NAMES_OF_PEOPLE = re.compile("(first|last|full|given|family|middle|user|customer|holder|driver|contact)_name")
_MAIL_ADDRESS = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"
_ENOUGH = 100
"""Number of values examined for card numbers."""


def why_private(name: str, values: pl.Series) -> str:
    """Say why a column should be private; empty if it need not be.

    Args:
        name: its raw name.
        values: its values in a sample.

    Example:
        >>> why_private("Contact", pl.Series(["ann@example.org", "bob@example.org"]))
        'since it holds mail addresses'
        >>> why_private("zip code", pl.Series([10115]))
        'by its name'
    """
    spoken = words(name)
    if any(_WORDS.fullmatch(word) for word in spoken) or _NAMES_OF_PEOPLE.search("_".join(spoken)):
        return "by its name"
    there = values.drop_nulls()
    if there.is_empty() or not (there.dtype == pl.String or there.dtype.is_integer()):
        return ""
    texts = there.cast(pl.String)
    if texts.str.contains(_MAIL_ADDRESS).sum() * 2 > len(texts):
        return "since it holds mail addresses"
    if all(_is_card_number(text) for text in texts.head(_ENOUGH).to_list()):
        return "since it holds numbers of cards"
    return ""


def _is_card_number(text: str) -> bool:
    """Return whether a text is a card number with a valid check digit (Luhn)."""
    if not re.fullmatch(r"\d(?:[ -]?\d){12,18}", text):
        return False
    digits = [int(one) for one in text if one.isdigit()]
    total = sum(digits[-1::-2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return total % 10 == 0
