"""`gpu-ci check`: of stack files, or of one machine."""
