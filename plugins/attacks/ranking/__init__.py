"""Inference by ranking candidates (SecureGate).

* `attack`: Ranking inference (SecureGate, section 5.1; Lukas et al., 2023), by perplexity.
* `cloze`: Questions of the inference attack: one PII is masked, and candidates are offered for
  it.
* `scoring`: Ranking inference: which candidate makes the sentence likeliest (SecureGate, section
  5.1).
"""
