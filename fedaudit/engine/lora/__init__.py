"""LoRA adapters: as tensors, attached, merged, several at once, composed into one.

* `active`: Adapters beside a model's weights, attached by PEFT: those that were asked last.
* `adapter`: A LoRA adapter as products: by module A (r, in), B (out, r) and the scaling of B A.
* `composition`: Adapters blended into one: c1 w1 + c2 w2 + ..., where w = s B A is what an
  adapter adds.
* `linear`: LoRA's linear layers as one operation each, for training.
* `merge`: Adapters inside a model's own weights, W + s B A: the same answers with fewer
  multiplications.
* `multi`: Several adapters on one frozen base at once: each block of rows has an adapter of its
  own.
"""
