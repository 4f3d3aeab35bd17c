"""Reports checked against their measurements and files.

* `masks`: Whether a report's masks, and its keyed names of records, are of the records at hand.
* `report`: What a report says, checked against its own measurements and the files that are at
  hand.
"""
