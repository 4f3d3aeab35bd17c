"""Membership inference: whether a record was trained on, told from how well a model knows it."""
