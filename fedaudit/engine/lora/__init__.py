"""LoRA adapters: read, attached, merged into weights, batched, and composed into one.

* `active`: A cache of the most recently used adapters, attached to a model by PEFT.
* `adapter`: A LoRA adapter as tensors: for each module A (r, in), B (out, r) and the scaling of B
  A.
* `composition`: Adapters blended into one: c1 w1 + c2 w2 + ..., where w = s B A is an adapter's
  weight change.
* `linear`: LoRA's linear layers as one operation each, for training.
* `merge`: Adapters merged into a model's weights, W + s B A, which saves multiplications.
* `multi`: Several adapters on one frozen base in one batch: each block of rows has its own adapter.
* `sketch`: Sketches of LoRA updates: random projections that keep the cosine between two updates.
"""
