"""The tables of an attribution: whom the protocol flags, and what other methods say of it.

* `clients`: The table of an attribution's clients, whom the protocol flags or not.
* `methods`: The tables of an attribution: whom the protocol flags, and what other methods say of
  it.
* `secure_sums`: The tables of what an attribution asked for, what that gives away, and how long it
  took.
* `simulated`: The table of what simulated federations say of an attribution's settings.
"""
