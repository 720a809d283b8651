"""Benchmarks: every figure that the documentation states comes from here."""
