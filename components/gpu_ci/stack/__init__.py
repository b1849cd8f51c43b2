"""Models and checks of stack files. They need neither the Pulumi engine nor its configuration."""
