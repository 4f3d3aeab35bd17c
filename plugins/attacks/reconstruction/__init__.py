"""Reconstruction of records from a client's LoRA update (DAGER).

* `attack`: Reconstruction from updates: whole records out of the span of what a client sends.
* `search`: Tokens, and token by token whole texts, whose inputs lie in the spans of an update.
* `span`: The row space of an update of LoRA's A, and whether an input lies in it up to rounding.
"""
