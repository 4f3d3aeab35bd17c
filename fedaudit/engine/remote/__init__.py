"""A model behind an OpenAI-compatible server, whose abilities are probed before it is used.

* `abilities`: What a server can do, judged by its behaviour and not by its claims or HTTP status
  200.
* `completion_cache`: Responses that a server gave before it failed in the middle of a chunk of
  requests.
* `connection`: Connecting to a served model: cost estimate, budget, probes, and checks of
  consistency.
* `dry_run`: An engine that sends no request, and counts the requests and tokens of an audit
  instead.
* `engine`: The engine for a model behind a server; it answers like a local engine as far as HTTP
  allows.
* `options`: Options of a server under audit: everything except its address and the model's name.
* `probe`: Probing what a served model can do, with a few dozen short requests about everyday
  topics.
* `score_check`: Whether a served model's scores of texts are its own, alone and while it scores
  other texts.
* `seed_check`: Checks, by repeating a request from time to time, that a server still honours seeds.
* `server`: A named model on one or more servers, to which requests are sent, alone or concurrently.
* `spending`: The cost of auditing a server, in requests and tokens: estimated, counted and limited.
* `tokenizer`: The tokenizer for a served model: its own, or the built-in one.
* `wire`: Requests and responses of the OpenAI-compatible protocol, and the validation of responses.
"""
