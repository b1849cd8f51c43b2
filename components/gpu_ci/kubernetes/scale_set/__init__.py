"""A runner scale set: its arguments, their rules, and the pods of its runners."""
