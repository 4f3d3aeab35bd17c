"""Loading models: checks of untrusted files, base weights, tokenizer, adapters.

* `checkpoint`: A model's folder: the files that are read, their fingerprint, and checks of the
  loaded weights.
* `adapter_layout`: An adapter's tensors in the names and the layout of the installed PEFT and
  transformers.
* `adapter_shapes`: A base's modules without its weights, and the shapes of an adapter's tensors on
  them.
* `config_alternatives`: Other values of a base's configuration under which its weights may model
  text better.
* `dumps`: Reading files of torch.save and numpy.savez, and converting them, in a sandboxed process.
* `dumps_process`: The sandboxed side of `dumps`, which opens files of torch.save and numpy.savez.
* `loader`: Loading a base by its name, and attaching adapters that fit it exactly.
* `model_check`: The engine's assumptions about a model, tested on a few tokens after loading.
* `module_patterns`: Module patterns of an untrusted adapter, matched first in a process that can be
  killed.
* `prompt_starts`: The token sequences with which a prompt may begin under a tokenizer.
* `quarantine`: An untrusted model, opened first in a process that can be killed.
* `quarantine_process`: The sandboxed side of `quarantine`, which uses an untrusted model as the
  audit will.
* `ranks`: The rank of each module in an adapter's configuration, compared with that of its tensors.
* `size_bounds`: Bounds on the modules and weights that a configuration may build, from the size of
  its files.
"""
