"""Sampling continuations of prompts: decoding loop, KV cache, sampler, stop strings.

* `cuda_graphs`: CUDA graphs: the kernels of a forward pass are captured once and replayed with one
  launch.
* `decoding`: The decoding loop: each prompt is prefilled once, however many samples it asks for.
* `kv_cache`: The KV cache of groups of samples that are decoded together, and the keys each row
  attends to.
* `sampler`: Drawing tokens, with random numbers that depend on the sample and not on its batch.
* `sequences`: The samples that are being decoded: their tokens so far, and which of them have
  ended.
* `shared_prefix`: Many samples of one prompt as a tree, whose shared tokens are computed and cached
  once.
* `stopping`: Early stopping, once it is settled which of the given strings a completion begins
  with.
"""
