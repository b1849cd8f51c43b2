"""Reports of a run. Each format is a pure function from the receipt's record to a text."""
