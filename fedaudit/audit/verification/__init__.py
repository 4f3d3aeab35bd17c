"""Verifying reports against their own measurements and the files that they name.

* `masks`: Checking that a report's masks and keyed record names belong to the records at hand.
* `report`: Verifying a report against its own measurements and the files that are at hand.
"""
