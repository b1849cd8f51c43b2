"""What machines with GPUs there are, as typed rows with sources."""
