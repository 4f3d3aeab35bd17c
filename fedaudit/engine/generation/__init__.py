"""Sampling continuations of prompts: decoding loop, KV cache, sampler, stop strings.

* `cuda_graphs`: CUDA graphs of forwards: a GPU repeats a whole forward at one word of the host.
* `decoding`: Continuing prompts: each prompt is read once, however many samples it asks for.
* `kv_cache`: The KV cache of prompts that are continued together, and which rows see which keys.
* `sampler`: Drawing tokens: the randomness of a sample belongs to the sample, not to its batch.
* `sequences`: Samples that are being drawn: what each says next, and which have ended.
* `shared_prefix`: Many samples of one prompt as a tree: what they share is read, kept and
  computed once.
* `stopping`: Strings that an answer may begin with: when it is settled which one
  stands there.
"""
