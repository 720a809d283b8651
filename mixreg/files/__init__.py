"""Fits in files: a zip of JSON and arrays that cannot run code."""
