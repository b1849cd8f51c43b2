"""What several packages of this wheel need and no library has; it uses the standard library alone."""
