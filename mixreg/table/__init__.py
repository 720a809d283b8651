"""From tables and formulas to rows."""
