"""The tables of extraction.

* `budget`: What smaller budgets would have found: a table an attack.
* `candidates`: The table of an attacker without a victim: how often it is right to believe its
  candidates.
* `discoverable`: The table of discoverable memorization: how much of the true answers comes back,
  by task.
* `evidence`: The table of the tests behind a verdict, and what the audit could have seen.
* `expected`: What an exact walk says of any number of samples: a table an attack.
* `overlap`: Tables of who found what others did not, where several attacks were made.
* `prompted`: The tables of extraction with prompts: how much came out, and of which kinds it is.
* `untargeted`: The tables of what a model says when nobody asks for it: without prompts, or in
  ordinary use.
* `verbatim`: The table of verbatim extraction: how near continuations come to the true text, by
  task.
"""
