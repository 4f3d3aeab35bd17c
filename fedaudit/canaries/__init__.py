"""Canaries: secrets of known law that are planted before training and looked for afterwards."""
