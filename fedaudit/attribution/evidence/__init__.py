"""Evidence that others can check: commitments, bundles, verification.

* `bundle`: A bundle: what an accused client's expert needs to compute a decision again, in one
  folder.
* `commitment`: What a decision may believe of the keys: those committed to beforehand, and how
  many there were.
* `verification`: An attribution checked by somebody else: everything from the estimates on
  computed again.
"""
