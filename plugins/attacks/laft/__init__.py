"""Latent association fine-tuning (FedPII): the attack, and a cache of tuned models.

* `attack`: Latent association fine-tuning (FedPII, section 4.2.3): a private copy learns to say
  PII.
* `model_cache`: Copies of a model that an attack tunes for itself: kept in a private folder, made
  only once.
"""
