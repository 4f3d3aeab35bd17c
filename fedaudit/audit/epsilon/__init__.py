"""A claimed epsilon, held against canaries whose coins were committed to before training.

* `claim`: What is claimed, and whether the canaries were planted as their coins fell.
* `gradients`: How much of each canary's own gradient is in a client's updates, as the server sees
  them.
* `measurements`: The rows of a report: what could be proved, what is, and both controls.
* `pipeline`: `fedaudit dp audit`, from a file of coins to a report.
* `request`: What `fedaudit dp audit` is asked to do.
* `scoring`: How much more a model knows of each canary, from where an attacker stands.
"""
