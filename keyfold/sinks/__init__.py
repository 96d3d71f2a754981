"""Where rows go beside their tables, once these have them."""
