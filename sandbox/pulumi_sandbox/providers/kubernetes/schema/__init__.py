"""Kubernetes' JSON schemas, and the custom resource definitions of ARC (Actions Runner Controller)."""
