"""Plots of a fit: each takes axes and returns them, and all look alike."""
