"""What a fit says: tables, notes, segments, predictions."""
