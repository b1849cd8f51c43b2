"""The command line of `pulumi-sandbox`: its own commands, and the pass-through of all others to the Pulumi CLI."""
