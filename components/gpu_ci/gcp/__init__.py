"""GPU capacity on Google Cloud."""
