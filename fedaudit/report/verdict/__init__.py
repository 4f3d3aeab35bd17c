"""The verdict: what its rules share, and the rules for what is no kind of row by itself.

* `attribution`: Whom the attribution protocol flags: what the verdict goes by, and the tables
  too.
* `binomial_limit`: The verdict on a count under a policy's limit, by the binomial test and its
  upper bound.
* `completion`: The verdict on answers to training prompts: nearer to the true ones than skill
  explains, or not.
* `criteria`: The default policy, and policies read from tables of files and reports.
* `data_kinds`: The verdict on kinds of data: whether more came out of one of them than its policy
  allows.
* `extraction`: What an extraction found: tests against controls, against the base and by string,
  and its reach.
* `inference`: The verdict on masked personal data: whether the model picks it more often than its
  base does.
* `instrument`: The verdict on the instrument: a model that does not read or answer properly cannot
  pass.
* `joint_tests`: Tests whose p values are adjusted together: leaks, guesses, limited kinds of data,
  and others.
* `leak`: What one attack found of one victim, what it is set against, and which leak would be
  seen.
* `policy`: The verdict: whether more came out of the model than its base gives, or a client is
  flagged.
* `recheck`: Whether a report's verdict is the one that follows from its own measurements.
"""
