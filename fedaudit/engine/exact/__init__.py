"""Probabilities of strings computed exactly, without sampling.

* `probabilities`: Exact probabilities that a continuation begins with a string, computed without
  sampling.
* `search`: Branches of the search over token sequences: expansion, pruning, and draws from pruned
  mass.
* `shared_prompts`: Splitting the result of the search for one prompt among the queries that share
  the prompt.
* `token_automaton`: A vocabulary as bytes, and an automaton over the strings that its tokens can
  spell.
"""
