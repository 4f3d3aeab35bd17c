"""Models: loading, batching, generating, scoring.

The only package that imports torch with its modules.

* `exact/`: Probabilities of strings computed exactly, without sampling.
* `generation/`: Sampling continuations of prompts: decoding loop, KV cache, sampler, stop
  strings.
* `loading/`: Loading models: checks of untrusted files, base weights, tokenizer, adapters.
* `lora/`: LoRA adapters: read, attached, merged into weights, batched, and composed into one.
* `parallel/`: Engines in several processes, on this machine or on a Ray cluster.
* `remote/`: A model behind an OpenAI-compatible server, whose abilities are probed before it is
  used.
* `scoring/`: Log-likelihoods of texts.
* `training/`: Fine-tuning of adapters, and gradients of losses.
* `vllm/`: A vLLM server that is started for one audit and serves its base and LoRA adapters.
* `attention`: Which models have standard attention, and how they use another function for it.
* `batching`: Which rows go through the model together; no torch needed.
* `compatibility`: Names that differ between versions of transformers.
* `device`: The device and dtype to use, and copies of numbers from the host to the device.
* `embeddings`: Document embeddings: the mean of a model's last hidden states.
* `environment`: Where a run took place: versions, device, and the commit of the code when there
  is one.
* `factory`: Engines made from their names, as --engine gives them.
* `fake`: An engine without a model, for tests of plugins: its answers are prepared by the test.
* `flops`: Floating-point operations of a model, counted by torch while the model runs.
* `hidden_states`: Hidden states of the base after a prompt.
* `local`: The engine for a model in this process: CUDA, bfloat16 or CPU.
* `memory`: What to do when a batch does not fit into memory: halve it, and remember the size.
* `multi_target`: Several targets asked the same questions: adapters side by side in a batch, or
  merged in turn.
* `padding`: Token rows as one tensor: left-padded to be continued, or right-padded to be scored.
* `routed`: An engine for a deployed model: its responder chooses the adapter, another engine
  answers.
* `scheduler`: Running all requests of a job in batches, each as large as memory allows.
* `small_model`: Models with operations so short that they run in one CPU thread.
"""
