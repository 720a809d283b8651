"""The report: one HTML file that a manager can read and an analyst can check."""
