"""What `gpu.py` does, in steps that each take seconds and are kept when they are done.

* `card`: What the device can do at best.
* `correctness`: The engine on the device beside plain transformers.
* `models`: Models of random weights, a tokenizer for them, adapters.
* `probing`: Continuing prompts, and `generate` as its peer.
* `profiling`: Where the time of probing goes.
* `report`: The results as a table.
* `runner`: Which steps there are, and which of them there is time for.
* `state`: What was measured so far, in a file.
* `timing`: Seconds and memory of work on a device.
* `work`: How much each step does.
* `workloads`: Scoring, exact probabilities, adapters, training.
"""
