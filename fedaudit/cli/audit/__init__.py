"""fedaudit audit and compare: all that applies, one verdict; two audits beside each other."""
