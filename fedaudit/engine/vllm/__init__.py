"""A vLLM server that is started for one audit and serves its base with adapters beside it.

* `adapter`: A LoRA adapter as vLLM can serve it: one rank, no scaling, no patterns.
* `engine`: The engine that asks it: adapters are loaded when they are asked for first.
* `installation`: Where vLLM is installed, and what its build runs on; found without importing it.
* `options`: How the server is started and asked.
* `server`: The server's process: its command, its start, and its end with this process.
* `supervisor`: The process in between, which ends the server when its own input ends.
"""
