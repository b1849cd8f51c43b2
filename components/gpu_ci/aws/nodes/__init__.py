"""The arguments, rules, role, launch template and tags of a managed node group with GPUs."""
