"""How the sizes of a node group are changed, and by whom."""
