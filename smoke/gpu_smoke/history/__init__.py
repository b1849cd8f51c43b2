"""What earlier runs measured: their receipts, and files of one's own measurements."""
