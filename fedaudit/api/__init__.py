"""What plugins and the core agree on: contracts, records that pass between them, and errors.

* `attribution`: What attribution is: telling which clients trained on watermarked documents.
* `defense`: What a defence is: its stages from a client's documents to how the deployed model
  answers.
* `engine`: What an engine is: it continues prompts, scores texts and computes exact probabilities.
* `errors`: What can go wrong, and the exit code each becomes.
* `estimates`: An estimate, and that of a rate: what every room and every plugin may need beside a
  number.
* `hooks`: The hooks a plugin package may implement; each returns a list of classes.
* `plugin`: What a plugin is, and what it may ask of the core.
* `progress`: How long work tells of itself.
* `records`: Every frozen record that rooms hand to each other: values only, nothing heavy
  imported.
* `secure_aggregation`: What secure aggregation is: a server learns sums over sets of clients and
  nothing else.
* `templates`: Prompt templates: how instruction, input and output become the text that is trained
  on.
* `watermark`: What a watermark is: it marks documents so that a model trained on them can be told
  by it.
"""
