"""The commands of `gpu-ci catalog`, one module each."""
