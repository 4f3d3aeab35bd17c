"""The verdict of each kind of audit.

* `attribution`: Whom the attribution protocol flags: what the verdict goes by, and the tables
  too.
* `binomial_limit`: The verdict on a count under a policy's limit, by the binomial test and its
  upper bound.
* `classes`: Which class of attacks a measurement is of, after EDPB Opinion 28/2024, paragraph 55.
* `completion`: The verdict on answers to training prompts: nearer to the true ones than skill
  explains, or not.
* `criteria`: The limits that a policy sets for an audit, and how certain the evidence must be.
* `epsilon`: The verdict on a claimed epsilon: refuted, not refuted, or no power to refute it.
* `exposure`: The verdict on canaries: whether training gave planted secrets away.
* `extraction`: What an extraction found: tests against controls, against the base and by string,
  and its reach.
* `inference`: The verdict on masked personal data: whether the model picks it more often than its
  base does.
* `instrument`: The verdict on the instrument: a model that does not read or answer properly cannot
  pass.
* `joint_tests`: Tests whose p values are adjusted together: leaks, guesses, limited kinds,
  membership.
* `judgement`: One judgement: what a rule concludes from one measurement, and the limit compared
  with it.
* `kinds`: The verdict on kinds of data: whether more came out of one of them than its policy
  allows.
* `leak`: What one attack found of one victim, what it is set against, and which leak would be
  seen.
* `membership`: The verdict on membership: whether trained records can be told from others.
* `membership_limit`: The verdict on membership under a policy's limit: how many members may be
  recognised at most.
* `memorization`: The verdict on memorization: whether one client's prefixes draw another client's
  texts.
* `policy`: The verdict: whether more came out of the model than its base gives, or a client is
  flagged.
* `recheck`: Whether a report's verdict is the one that follows from its own measurements.
"""
