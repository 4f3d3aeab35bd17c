"""Sampling continuations of prompts: decoding loop, KV cache, sampler, stop strings."""
