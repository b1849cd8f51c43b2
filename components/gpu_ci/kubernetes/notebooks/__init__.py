"""Pipelines that run the notebooks of repositories on GPU nodes with Tekton: arguments, objects, and tasks."""
