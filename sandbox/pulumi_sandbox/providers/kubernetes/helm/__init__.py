"""The Helm charts that the sandbox knows: their values, their errors and the objects that they create."""
