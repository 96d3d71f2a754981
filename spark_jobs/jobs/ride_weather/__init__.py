"""Join rides with the weather at their start: the job, and the nearest station."""
