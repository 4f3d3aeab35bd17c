"""What clients train on: partition, data sets, loss masks, watermarked documents.

* `canary_planting`: Canaries in the records of a simulated federation.
* `caveats`: What a reader should know of the record files that a simulation was given.
* `client_files`: Documents of clients that have their own, in place of documents that are dealt
  to them.
* `counterfactual_clients`: Clients that a counterfactual federation is without.
* `datasets`: What each client trains on: its documents, as they are and as the defences prepare
  them.
* `few_shot`: A few documents of every kind: what clients train on where data is scarce
  (FewFedPIT, A).
* `label_skew`: Label skew: how far clients' shares of classes are from everybody's, and from what
  was meant.
* `loss_mask`: What of a record a client learns: its whole text, or only the answer in it.
* `partition`: Dealing documents to clients, each about equally many.
* `settings`: Settings of what clients train on: made-up records, partition, few shots, marks,
  canaries.
* `watermarking`: Clients that train on somebody's watermarked documents: who, and on which.
"""
