"""Probabilities of strings computed exactly, without sampling.

* `probabilities`: Exact extraction probabilities: how likely continuations begin with strings,
  without drawing any.
* `search`: Branches of a walk over token sequences: how they split, what is followed, what is given
  up.
* `shared_prompts`: Splitting the result of a walk over one prompt among the questions that share
  it.
* `token_automaton`: Which tokens spell what: a vocabulary as bytes, and an automaton over the
  strings to spell.
"""
