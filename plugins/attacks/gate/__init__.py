"""Guessing the key of a deployed gate (SecureGate).

* `attack`: The gate itself as target: what it lets through without a valid key.
* `guesses`: Guesses at a key: random ones, near misses, look-alikes, and the key where it should
  not count.
* `query`: Queries to a gate: keys and requests, with and without a valid key, and which it lets
  through.
* `shorter_context`: An engine with less context, for prompts that grow before the model reads them.
"""
