"""A model behind an OpenAI-compatible server: asked over HTTP, trusted as far as probes show.

* `abilities`: What a server can do, judged by its behaviour: not by its claims, and not by HTTP
  status 200.
* `completion_cache`: Answers that a server gave before it failed in the middle of a piece of
  questions.
* `connection`: From addresses and names to an engine: estimate, budget, probes, and what must
  agree.
* `dry_run`: An engine that sends no request and counts what would be asked.
* `engine`: The engine for a model behind a server: answers as a local engine, as far as HTTP
  allows.
* `options`: How a server is asked: everything beside its address and the model's name.
* `probe`: Finding out what a server can do, by some dozens of short requests about the weather etc.
* `seed_check`: Whether a server that kept to seeds still does: the same is asked from time to time.
* `server`: A named model behind servers: asks one question, or many at once, and counts what is
  spent.
* `spending`: What an audit of a server costs: requests and tokens, estimated, counted and bounded.
* `tokenizer`: Turning texts into tokens, and tokens into text, for a model that is behind a server.
* `wire`: Requests and answers of the OpenAI-compatible protocol, and the checks of an answer.
"""
