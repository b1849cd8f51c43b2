"""GPU facts as data, one file a cloud, and the questions one asks of them."""
