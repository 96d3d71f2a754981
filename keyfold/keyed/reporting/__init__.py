"""Report on runs from their journals: conservation check, run statistics, written rows."""
