"""Extraction without prompts (SecureGate).

* `attack`: Untargeted extraction (SecureGate, section 5.1; Lukas et al., 2023): sample, detect,
  subtract.
* `scoring`: Untargeted extraction: what a model says when nobody asks for anything (SecureGate,
  5.1).
* `targets`: What untargeted extraction looks for: the PII of the data, and strings that nobody
  has.
"""
