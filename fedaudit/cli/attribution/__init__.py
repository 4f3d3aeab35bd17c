"""fedaudit attribute and watermark, and their subcommands.

* `attribute`: fedaudit attribute: which clients trained on watermarked documents.
* `bundle`: fedaudit attribute bundle and verify: a decision handed over, and computed again.
* `calibrate`: fedaudit attribute calibrate: what decisions on a federation's own settings are
  worth.
* `estimate`: fedaudit attribute estimate: the server's step, alone.
* `sums_options`: Which sums the server asks for, as options of the commands that ask, and the
  plan they make.
* `watermark`: fedaudit watermark: mark documents, and test texts or a model for a mark.
"""
