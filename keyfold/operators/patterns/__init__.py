"""Find patterns in the events of a key: `a` followed by `b`, `a` without `b`, `n` times `a`."""
