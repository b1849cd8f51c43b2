"""The parts of a runner pool that nodes of every cloud share: its fields, their rules, the check and the runners."""
