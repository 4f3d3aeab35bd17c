"""Latent association fine-tuning (FedPII): the attack, and a cache of tuned models."""
