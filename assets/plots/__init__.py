"""Draw plots for the metadata of assets; they are small, and read a bounded number of rows."""
