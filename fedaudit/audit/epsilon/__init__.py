"""A claimed epsilon, tested on canaries whose coins were committed to before training.

* `claim`: The claimed epsilon, and the check that canaries were planted as their coins fell.
* `gradients`: The weight of each canary's gradient in a client's updates, as the server sees them.
* `measurements`: The report's rows on epsilon: the highest possible bound, the bounds, and both
  controls.
* `pipeline`: `fedaudit dp audit`, from a file of coins to a report.
* `request`: The settings of `fedaudit dp audit`.
* `scoring`: Scores of canaries: the gain in ln p between the models that an attacker's position
  sees.
"""
