"""The stores of the manager's memory: one file, or one object that several computers share."""
