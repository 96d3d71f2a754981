"""Explain rows: read the events of a key, play them again by the journal's clocks, and compare with what is stored."""
