"""Runs of Tekton: the rules of a PipelineRun, its steps as processes, and the listener of Triggers."""
