"""Conversion of another framework's federation folder into one of fedaudit's.

* `bases`: The base that adapters were trained on: named by the user, or by files and found locally.
* `configuration`: An adapter's configuration: its file, or the user's settings completed from its
  tensors.
* `continuity`: Whether a run's global adapters go on from round to round, or begin anew.
* `foreign_targets`: Foreign folders given to a command in place of a federation: imported first,
  once.
* `pipeline`: From a foreign folder to a federation's: the steps of `fedaudit import`.
* `recognition`: Recognition of a folder's layout by its contents.
* `rederivation`: Whether a global adapter is the mean of its clients', and with which weights.
* `source`: A folder to import as an importer sees it: its files, without links, and their contents.
* `writer`: The adapters of a foreign federation, copied or converted into rounds of one of ours.
"""
