"""Opt-in tests of real targets: `make test-live` (a cloud account) and `make test-gpu` (this machine)."""
