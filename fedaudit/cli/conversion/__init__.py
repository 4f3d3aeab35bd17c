"""fedaudit import: another framework's folder, made a federation's.

* `command`: fedaudit import: another framework's folder, made a federation's.
"""
