"""State as data: read it, seed it, compare it, move it, mend it."""
