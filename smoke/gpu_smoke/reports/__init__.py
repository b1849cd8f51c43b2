"""What people and machines read of a run: each form is a pure function from the receipt's record to a text."""
