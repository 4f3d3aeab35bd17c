"""An audit by members who show each other no records: who draws whose strings (docs/joint.md)."""
