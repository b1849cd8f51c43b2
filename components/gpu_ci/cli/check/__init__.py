"""`gpu-ci check`: check stack files or one machine."""
