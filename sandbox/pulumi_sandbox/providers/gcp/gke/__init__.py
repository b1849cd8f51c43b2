"""GKE: clusters, and the refusals and the nodes of node pools."""
