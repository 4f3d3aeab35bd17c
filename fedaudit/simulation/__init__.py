"""A whole federation on one machine: partition, client training, rounds, utility."""
