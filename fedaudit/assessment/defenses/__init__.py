"""What each installed defence would have bought and cost: the federation trained again under it.

* `candidates`: The defences that a federation can be trained under, and why not the others.
* `client_files`: The clients' files of records that a federation is trained on again.
* `differences`: What a defence changes, over seeds: leak, held-out loss and cost, compared with no
  defence.
* `leak_request`: The attack on every trained federation: the cheap part of the audit's own attacks.
* `outcome`: What one trained federation came to, and the file that keeps it.
* `pipeline`: Trains and attacks every federation in turn, resuming earlier runs; the report's
  section.
* `plan`: What would be trained, and about how long that takes.
* `recommendation`: What follows from the differences, in sentences.
* `settings`: The settings that a federation is trained again with: its own, or a profile's.
* `training`: One federation under one defence with one seed: trained, attacked, measured.
"""
