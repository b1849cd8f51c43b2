"""GKE: clusters, and the refusals of node pools."""
