"""Shapes: the declarations of resources and functions, read from the source of the installed Pulumi SDKs."""
