"""A language model behind an endpoint that judges answers against reference answers."""
