"""Draw the plots of every keyed job, as metadata of its assets."""
