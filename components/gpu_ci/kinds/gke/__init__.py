"""The kind gke-runners: GPU runners on GKE."""
