"""The commands `gpu-ci manager run`, `gpu-ci manager status` and `gpu-ci explain`."""
