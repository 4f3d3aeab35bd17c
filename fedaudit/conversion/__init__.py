"""A foreign federation's folder, made one of fedaudit's.

* `bases`: The base that adapters were trained on: named by the user, or by files and here.
* `configuration`: An adapter's configuration: its file, or what the user says and its tensors show.
* `foreign_targets`: Foreign folders where a command takes a federation: imported first, once.
* `pipeline`: From a foreign folder to a federation's: the steps of `fedaudit import`.
* `recognition`: Which layout a folder has, by what is in it.
* `rederivation`: Whether a global adapter is the mean of its clients', and with which weights.
* `source`: A folder to import as an importer sees it: its files, without links, and what they hold.
* `writer`: The adapters of a foreign federation, copied or converted into rounds of one of ours.
"""
