"""A paper's study: federations, audits, pooled measurements and claims.

* `audits`: The audits of one variant of a study: who attacks whom, and through which model.
* `claims`: A paper's claims as comparisons of measurements, without evaluating code.
* `instruments`: What is measured on a victim beside extraction: inference from candidates, and
  exposure.
* `memorization`: Cross-client memorization of one variant of a study.
* `outcome_cache`: Outcomes of variants, kept so that a study that was stopped runs only the rest.
* `pooling`: Pooling: one row over all clients for the counts that were measured at each.
* `ratios`: Ratios of two measurements: overheads, and what is left without the base's own.
* `runner`: Running a study: each federation once, the attacks on it, then claims and figures.
* `scheduler`: The variants of a study, one after the other or several at a time.
* `seeds`: Several seeds of a study: each row as a mean over them, and what each of them says of a
  claim.
* `study_lock`: A study's lock: what each claim and its variants were before a seed was run.
* `variant`: One variant of a study: its federation, and what is measured on it.
* `variant_checks`: What of a variant cannot be run, found before any federation is trained.
"""
