"""Models: loading, batching, generating, scoring.

The only package that imports torch with its modules.

* `exact/`: Probabilities of strings computed exactly, without sampling.
* `generation/`: Sampling continuations of prompts: decoding loop, KV cache, sampler, stop
  strings.
* `loading/`: From a folder to a model in memory: checks of foreign files, weights, tokenizer,
  adapters.
* `lora/`: LoRA adapters: as tensors, attached, merged, several at once, composed into one.
* `parallel/`: Engines in several processes, on this machine or on a Ray cluster.
* `remote/`: A model behind an OpenAI-compatible server: asked over HTTP, trusted as far as probes
  show.
* `scoring/`: Log-likelihoods of texts.
* `training/`: Fine-tuning of adapters, and gradients of losses.
* `vllm/`: A vLLM server that is started for one audit and serves its base with adapters beside it.
* `batching`: Which rows go through the model together; no torch needed.
* `compatibility`: What has another name in other versions of transformers.
* `device`: Devices: which one and with which dtype, and numbers that go there from the host.
* `embeddings`: Document embeddings: the mean of a model's last hidden states.
* `factory`: From the name of an engine, as --engine has it, to the engine.
* `fake`: An engine without a model, for tests of plugins: it gives prepared answers.
* `flops`: Floating-point operations of a model, counted by torch while the model runs.
* `hidden_states`: Hidden states of the base after a prompt.
* `local`: The engine for a model in this process: CUDA, bfloat16 or CPU.
* `memory`: What to do when a batch does not fit into memory: halve it, and remember what fitted.
* `multi_target`: Several targets that are asked the same: adapters side by side in a batch, or
  merged in turn.
* `padding`: Rows of tokens as one tensor: padded ahead to be continued, or behind to be scored.
* `routed`: An engine for a deployed model: its responder chooses the adapter, another engine
  answers.
* `scheduler`: Running all of a job in batches, each as large as memory allows.
* `small_model`: Models so small that their operations are short: they are run in another way.
"""
