"""A vLLM server that is started for one audit and serves its base and LoRA adapters.

* `adapter`: LoRA adapters rewritten to a plain form that all versions of vLLM serve in the same
  way.
* `engine`: The engine that starts its own vLLM server, for models that do not fit on one GPU.
* `installation`: Where vLLM is installed, and whether its build is for CPUs, found without
  importing it.
* `options`: Options of starting a vLLM server and of sending requests to it.
* `server`: The process of a vLLM server, which ends with this process at the latest.
* `supervisor`: Runs another program and ends it, with all processes that it started, at the end of
  stdin.
"""
