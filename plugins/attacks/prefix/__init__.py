"""Attacks with prefixes (FedPII): contextual, superset, frequency.

* `contextual`: Contextual prefixes (FedPII, section 4.2.1): what precedes my PII precedes yours
  too.
* `frequency`: Frequency-prioritised prefixes (FedPII, section 4.2.2): ask first what precedes
  most PII.
* `superset`: All sub-prefixes (FedPII, section 4.2.1): every end of what precedes my PII precedes
  it too.
"""
