"""`gpu-ci deploy`: rollouts on Vertex AI, verdicts on canaries, and what traffic can detect."""
