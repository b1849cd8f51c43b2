"""The arguments, rules, instance template and boot metadata of a GPU machine on Compute Engine."""
