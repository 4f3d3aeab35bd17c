"""A Flower app whose members audit their model together (docs/joint.md)."""
