"""The definitions that Dagster loads."""

from keyfold.dagster.definitions import build_definitions

defs = build_definitions()
