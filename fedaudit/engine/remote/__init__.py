"""A model behind an OpenAI-compatible server, whose abilities are probed before it is used."""
