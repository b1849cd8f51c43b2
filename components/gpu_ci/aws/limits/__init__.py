"""The provider of NodeGroupLimits: changes the maximum size of a node group, and suspends its zone balancing."""
