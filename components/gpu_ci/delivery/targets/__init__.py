"""The services whose traffic a rollout moves."""
