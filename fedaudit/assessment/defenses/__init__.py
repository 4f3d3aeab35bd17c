"""What each installed defence would have bought and cost: the federation trained again under it.

* `candidates`: The defences that a federation can be trained under, and why not the others.
* `client_files`: Whose records a federation is trained on again, and what it is not trained on.
* `differences`: What a defence changes, over seeds: leak, held-out loss and cost beside none's.
* `leak_request`: The attack on every trained federation: the audit's own, as far as it is cheap.
* `outcome`: What one trained federation came to, and the file that keeps it.
* `pipeline`: Every federation in turn, from what earlier runs left, and the section of the report.
* `plan`: What would be trained, and about how long that takes.
* `recommendation`: What follows from the differences, in sentences.
* `settings`: By which settings a federation is trained again: its own, or a profile's.
* `training`: One federation under one defence with one seed: trained, attacked, measured.
"""
