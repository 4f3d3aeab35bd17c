"""Evidence that others can check: commitments, bundles, verification.

* `bundle`: A bundle: what an accused client's expert needs to compute a decision again, in one
  folder.
* `commitment`: Which keys a decision may trust: those committed to beforehand, and how many there
  were.
* `commitment_comparison`: The commitments of a bundle, compared with the published ones, the marks
  and the decision.
* `decision_rows`: Rows of a decision, checked against the scores as far as possible without the
  sets of sums.
* `opened_marks`: Accusations decided again: by the opened marks alone, and at the usual error
  level.
* `report_comparison`: The report of a bundle, compared with what follows from its scores.
* `report_file`: A report of `attribute decide` on disk, as it is in a bundle and needed for a
  verification.
* `score_comparison`: The scores of a bundle, compared with those that its estimates and marks give.
* `source`: A bundle's estimates, compared with what the server says that it handed over.
* `verification`: An attribution checked by somebody else: everything after the estimates is
  computed again.
"""
