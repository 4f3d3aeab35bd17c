"""A model behind an OpenAI-compatible server: asked over HTTP, believed only as far as it shows.

* `abilities`: What a server can do, found by what it does: not by what it says, and not by HTTP
  status 200.
* `completion_cache`: Answers that a server gave to a piece of questions which it did not get to the
  end of.
* `connection`: From addresses and names to an engine: estimate, budget, probes, and what must
  agree.
* `dry_run`: An engine that asks nobody and counts what would be asked.
* `engine`: The engine for a model behind a server: what a local engine answers, as far as HTTP
  goes.
* `options`: How a server is asked: everything beside its address and the model's name.
* `probe`: Finding out what a server can: some dozens of short requests about the weather and the
  like.
* `seed_watch`: Whether a server that kept to seeds still does: the same is asked again from time
  to time.
* `server`: A model by its name behind servers: one question, or many at once, and what was spent
  on it.
* `spending`: What an audit of a server costs: requests and tokens, told before, counted, and
  bounded.
* `tokenizer`: How texts are cut into tokens for a model that is not here, and put together for its
  server.
* `wire`: Requests and answers of the OpenAI-compatible protocol, and what is believed of an answer.
"""
