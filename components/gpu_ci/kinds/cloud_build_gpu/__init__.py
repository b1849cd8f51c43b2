"""The kind cloud-build-gpu: GPU machines for steps of Cloud Build."""
