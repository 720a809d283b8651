"""Fits without error: what they prove, and why they are there."""
