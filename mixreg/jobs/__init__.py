"""One kind of job: a problem and options in, a finished fit out."""
