"""The engine, which is the Pulumi CLI: find it on this computer, download it, or build it from Go modules."""
