"""Evidence that others can check: commitments, bundles, verification.

* `bundle`: A bundle: what an accused client's expert needs to compute a decision again, in one
  folder.
* `commitment`: Which keys a decision may trust: those committed to beforehand, and how many there
  were.
* `verification`: An attribution checked by somebody else: everything after the estimates is
  computed again.
"""
