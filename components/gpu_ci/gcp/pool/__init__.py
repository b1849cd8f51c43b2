"""The ladder and the checked template of a runner pool, and the rules of its fields."""
