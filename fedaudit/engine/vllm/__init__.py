"""A vLLM server that is started for one audit and serves its base with adapters beside it.

* `adapter`: LoRA adapters in the form that vLLM serves alike in all its versions.
* `engine`: The engine that starts a vLLM server and asks it: for models that one GPU does not hold.
* `installation`: Where vLLM is installed, and what its build runs on; found without importing it.
* `options`: How vLLM is started and asked, beside what is served.
* `server`: A vLLM server's process: its command, its start, and its end with this process.
* `supervisor`: Runs another program, and ends it with all that it started when standard input ends.
"""
