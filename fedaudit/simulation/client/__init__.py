"""One client: training, its round, and what it keeps to itself."""
