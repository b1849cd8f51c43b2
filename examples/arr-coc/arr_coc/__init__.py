"""A small classifier of textures, with its training and its server. Replace this package with your own code."""
