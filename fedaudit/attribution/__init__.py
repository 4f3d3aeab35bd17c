"""The protocol of FedAttr by party, and the methods it is compared with."""
