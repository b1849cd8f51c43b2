"""The Pulumi program of a stack: it reads the stack file, creates its resources, and exports their outputs."""
