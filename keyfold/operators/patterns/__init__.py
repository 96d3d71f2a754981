"""Find patterns in the events of a key: steps that follow each other within a time."""
