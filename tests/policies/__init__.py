"""The policy pack: every rule both ways, and the pack as the engine asks it."""
