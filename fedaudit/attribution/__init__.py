"""Attribution of watermarked documents to clients, under secure aggregation.

* `decision/`: Who is flagged, and how often that would be wrong.
* `evidence/`: Evidence that others can check: commitments, bundles, verification.
* `owner/`: The owner's part: watermarks, and testing estimates for them.
* `server/`: The server's part: which sums to ask for, and the estimates they give.
* `committed_decision`: A decision over scores that counts published commitments only, with its
  rows.
* `copied_updates`: Adapters that were stored more than once: rounds that are copies, clients that
  sent the same.
* `estimates`: Estimates on disk: all that the owner of a watermark gets from the server.
* `federation_checks`: Checks that files of estimates and of scores share: clients, rounds,
  weights, masks.
* `measurements`: What attribution measured, as rows of a report.
* `missing_scores`: Rounds and estimates without scores, as limits of a report.
* `pipeline`: Attribution from a federation's folder or from scores, to a report.
* `plaintext`: The context of methods that need plaintext: a federation's rounds as they were
  stored.
* `protocol`: FedAttr's protocol with all parties in one process: sums, tests of estimates, the
  decision.
* `report`: An attribution as a report: rows, limits, verdict.
* `request`: The request of `attribute --rounds`, and its inputs, resolved before any model is
  loaded.
* `scores`: The owner's scores on disk: the result of each mark's test of every estimate of every
  round.
* `skewed_counts`: Tests with too few expected hits for a nearly normal z, as limits of a report.
"""
