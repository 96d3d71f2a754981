"""Plots in the metadata of assets: for what people would rather look at than read. Small, and drawn of bounded reads."""
