"""What follows from one observation: pure functions from what was seen and is remembered to what is to be done."""
