"""`gpu-ci train`: training jobs on Vertex AI."""
