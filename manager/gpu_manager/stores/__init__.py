"""Stores of the manager's memory and of its published view, in a file or in Cloud Storage."""
