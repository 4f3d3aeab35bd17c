"""Evidence that others can check: commitments, bundles, verification.

* `bundle`: A bundle: what an accused client's expert needs to compute a decision again, in one
  folder.
* `commitment`: Which keys a decision may trust: those committed to beforehand, and how many there
  were.
* `commitment_comparison`: The commitments of a bundle, compared with the published ones, its marks
  and its decision.
* `decision_rows`: Rows of a decision, checked as far as they follow from the scores without the
  sets of sums.
* `report_comparison`: The report of a bundle, compared with what follows from its scores.
* `report_file`: A report of `attribute decide` on disk: what a bundle has, and a verification
  starts from.
* `score_comparison`: The scores of a bundle, compared with those that its estimates and marks give.
* `verification`: An attribution checked by somebody else: everything after the estimates is
  computed again.
"""
