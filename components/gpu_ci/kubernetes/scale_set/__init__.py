"""The arguments, rules and pods of a runner scale set."""
