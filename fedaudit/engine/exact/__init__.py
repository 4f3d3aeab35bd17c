"""Probabilities of strings computed exactly, without sampling.

* `probabilities`: Exact extraction probabilities: how likely continuations begin with strings,
  without drawing any.
* `scattered`: What a walk found of one prompt, for each of the questions that it was asked for.
* `search`: Branches of a walk over token sequences: how they part, what is followed, what is
  given up.
* `token_automaton`: Which tokens spell what: a vocabulary as bytes, and an automaton over the
  strings to spell.
"""
