"""A GPU machine on Compute Engine: its arguments, its template, and what it boots with."""
