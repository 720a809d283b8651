"""Tables in files, read and written chunk by chunk."""
