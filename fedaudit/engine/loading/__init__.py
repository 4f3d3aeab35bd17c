"""From a folder to a model in memory: checks of foreign files, weights, tokenizer, adapters.

* `checkpoint`: A model's folder: the files that are read of it, their fingerprint, and whether
  all fitted.
* `adapter_shapes`: A base's modules without its weights, and the tensors that an adapter has on
  them.
* `dumps`: Files of torch.save and numpy.savez: opened, and made safetensors, in a process with
  limits.
* `dumps_process`: What is done with files of torch.save and numpy.savez, in a process with limits.
* `loader`: From a name to a model in memory: where bases come from, and adapters that really fit
  them.
* `model_check`: What the engine takes for granted of a model, tried on a few tokens once it is
  loaded.
* `module_patterns`: Regular expressions of an untrusted adapter, tried in a process that can be
  killed.
* `prompt_starts`: How prompts may begin under a tokenizer.
* `quarantine`: An untrusted model, opened first in a process that can be killed.
* `quarantine_process`: The trial of an untrusted model in a process with limits: all that is done
  with it later.
* `ranks`: The rank of each module: what an adapter's configuration gives it, and what its
  tensors have.
* `size_bounds`: Bounds on what a configuration may build: no more modules and weights than its
  files suggest.
"""
