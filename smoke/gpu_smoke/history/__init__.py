"""Measurements of earlier runs: their receipts, and files of the user's own measurements."""
