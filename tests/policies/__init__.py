"""Tests of the policy pack: every rule, violated and not, and the pack as the engine uses it."""
