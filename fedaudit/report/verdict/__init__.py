"""The verdict of each kind of audit.

* `attribution`: Whom the attribution protocol flags: what the verdict goes by, and the tables
  too.
* `completion`: The verdict on answers to training prompts: nearer to the true ones than skill
  explains, or not.
* `epsilon`: The verdict on a claimed epsilon: refuted, not refuted, or no power to refute it.
* `exposure`: The verdict on canaries: whether training gave planted secrets away.
* `extraction`: The tests of what an extraction found: against what nobody has, against the base,
  by string.
* `membership`: The verdict on membership: whether trained records can be told from others.
* `memorization`: The verdict on memorization: whether one client's prefixes draw another client's
  texts.
* `policy`: The verdict: whether more came out of the model than its base gives, or a client is
  flagged.
* `recheck`: Whether a report's verdict is the one that follows from its own measurements.
"""
