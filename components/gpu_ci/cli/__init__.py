"""The command `gpu-ci`: asks the catalog, and looks at stack files without an engine and without an account."""
